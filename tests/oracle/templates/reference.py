"""The reference chat template engine: python3-jinja2, configured as Hugging Face transformers does.

Everything that compares our renderer with it goes through `render` and `OurRenderer` here.
"""

import datetime
import json
import subprocess

import jinja2
import jinja2.ext
import jinja2.sandbox

# The moment strftime_now() tells, on both sides.
NOW = datetime.datetime(2024, 7, 26, 9, 5, 3)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant said; its text is its body's."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_call")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _call(self, caller):
        return caller()


def _raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def _tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _strftime_now(text):
    return NOW.strftime(text)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = _tojson
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = _strftime_now
    return env


class Template:
    """A template of the reference, compiled once. A template that does not compile fails in every render."""

    def __init__(self, source):
        self.compiled, self.error = None, None
        try:
            self.compiled = environment().from_string(source)
        except Exception as error:  # whatever a template makes Python raise is the template's error
            self.error = f"{type(error).__name__}: {error}"

    def render(self, context):
        """(text, None) or (None, what went wrong)."""
        if self.compiled is None:
            return None, self.error
        try:
            text = self.compiled.render(**context)
            text.encode("utf-8")
            return text, None
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"


def render(template, context):
    return Template(template).render(context)


class OurRenderer:
    """Our renderer, through the render_template tool: one process, a line per request."""

    def __init__(self, tool):
        self.process = subprocess.Popen(
            [tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def render(self, template, context):
        """(text, None, None) or (None, message, code)."""
        request = {"template": template, "context": context, "now": NOW.isoformat()}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"render_template ended with {self.process.wait()}")
        answer = json.loads(line)
        if "text" in answer:
            return answer["text"], None, None
        return None, answer["error"], answer["code"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
