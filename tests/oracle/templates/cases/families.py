"""Whole templates in the prompt formats of the model families we serve, in our own words: they use the
constructs that the families' own templates use."""

import conversations

CHATML = """{%- for m in messages -%}
    {%- if loop.first and m.role != 'system' -%}
        {{- '<|im_start|>system\\nBe of help.<|im_end|>\\n' -}}
    {%- endif -%}
    {{- '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

LLAMA2 = """{% if messages[0]['role'] == 'system' %}
{% set rest = messages[1:] %}
{% set system = messages[0]['content'] %}
{% else %}
{% set rest = messages %}
{% set system = false %}
{% endif %}
{% for m in rest %}
{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('user and assistant must take turns, user first') }}
{% endif %}
{% if loop.index0 == 0 and system != false %}
{% set text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + m['content'] %}
{% else %}
{% set text = m['content'] %}
{% endif %}
{% if m['role'] == 'user' %}
{{ bos_token + '[INST] ' + text.strip() + ' [/INST]' }}
{% elif m['role'] == 'assistant' %}
{{ ' ' + text.strip() + ' ' + eos_token }}
{% endif %}
{% endfor %}"""

LLAMA3 = """{{- bos_token }}
{%- if tools is not defined %}{% set tools = none %}{% endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if messages and messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {{- "You may call these functions:\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("one tool call at a time, please") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
        {{- '{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot_id|>" }}
    {%- else %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """{%- if messages and messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set users = turns | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for m in turns %}
    {%- if not (m.role == "tool" or m.role == "tool_results" or (m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("roles must alternate: user, assistant, user, assistant...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in turns %}
    {%- if m["role"] == "user" %}
        {%- if tools is not none and (m == users[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system is defined %}
            {{- "[INST] " + system + "\\n\\n" + m["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + m["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif m.tool_calls is defined and m.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for call in m.tool_calls %}
            {%- set out = call.function|tojson %}
            {{- out[:-1] }}
            {%- if not call.id is defined or call.id|length != 9 %}
                {{- raise_exception("a tool call's id has nine letters or digits") }}
            {%- endif %}
            {{- ', "id": "' + call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif m["role"] == "assistant" %}
        {{- " " + m["content"]|trim + eos_token}}
    {%- elif m["role"] == "tool_results" or m["role"] == "tool" %}
        {%- if m.content is defined and m.content.content is defined %}
            {%- set content = m.content.content %}
        {%- else %}
            {%- set content = m.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}
        {{- '"call_id": "' + m.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("unknown role " ~ m["role"]) }}
    {%- endif %}
{%- endfor %}
"""

QWEN2 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}{%- else %}{{- 'You are useful.' }}{%- endif %}
    {{- "\\n\\n# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages and messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

QWEN3 = """{%- set ns = namespace(looking=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.looking and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.looking = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{%- set content = message.content %}{%- else %}{%- set content = '' %}{%- endif %}
    {%- if (message.role == "user") or (message.role == "system") %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}
            {%- if loop.last or (not loop.last and thought) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>\\n{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}{%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}\\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}
"""

GEMMA = """{{ bos_token }}
{%- if messages and messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("turns go user, model, user, model") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("content must be text or parts") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\\n'}}
{%- endif -%}
"""

SMOLLM3 = """{# thinking is on unless it is turned off #}
{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set mode = "/think" if enable_thinking else "/no_think" -%}
{%- if messages and messages[0].role == "system" -%}
    {%- set text = messages[0].content -%}
    {%- if "/no_think" in text -%}{%- set mode = "/no_think" -%}{%- elif "/think" in text -%}{%- set mode = "/think" -%}{%- endif -%}
    {%- set custom = text.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "<|im_start|>system\\n## Facts\\n\\n" -}}
{{- "Today: " ~ strftime_now("%d %B %Y") ~ "\\n" -}}
{{- "Mode: " + mode + "\\n\\n" -}}
{%- if custom -%}{{- custom + "\\n\\n" -}}{%- endif -%}
{%- if tools -%}
    {%- set ns = namespace(list="<tools>\\n") -%}
    {%- for tool in tools -%}{%- set ns.list = ns.list ~ (tool | string) ~ "\\n" -%}{%- endfor -%}
    {{- ns.list + "</tools>\\n" -}}
{%- endif -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}
        {{ "<|im_start|>user\\n" + content + "<|im_end|>\\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}
        {%- if mode == "/think" -%}
            {{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- else -%}
            {{ "<|im_start|>assistant\\n<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}
        {%- endif -%}
        {% endgeneration %}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ "<|im_start|>assistant\\n" if mode == "/think" else "<|im_start|>assistant\\n<think>\\n\\n</think>\\n" }}
{%- endif -%}
"""

PHI3 = """{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'user' %}{{'<|user|>
' + message['content'] + '<|end|>
'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>
' + message['content'] + '<|end|>
'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>
' }}{% else %}{{ eos_token }}{% endif %}"""

PHI4 = """{% for m in messages %}{% if m['role'] == 'system' and 'tools' in m and m['tools'] is not none %}\
{{ '<|' + m['role'] + '|>' + m['content'] + '<|tool|>' + m['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}\
{{ '<|im_start|>' + m['role'] + '<|im_sep|>' + (m['content'] or '') + '<|im_end|>' }}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"""

TYPES = """{%- macro type_of(spec) -%}
    {%- set names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"} -%}
    {%- if spec.type is string and names[spec.type] is defined -%}
        {{- names[spec.type] -}}
    {%- elif spec.type == "array" -%}
        {{- "list[" + type_of(spec['items']) + "]" -}}
    {%- elif spec.type == "object" -%}
        {%- if spec.properties is defined -%}
            {{- "{" -}}
            {%- for name, inner in spec.properties | items -%}
                {{- name }}: {{ type_of(inner) -}}{{ ", " if not loop.last }}
            {%- endfor -%}
            {{- "}" -}}
        {%- else -%}dict{%- endif -%}
    {%- elif spec.type is iterable -%}
        {%- for kind in spec.type -%}{{- type_of({"type": kind}) -}}{{- " | " if not loop.last -}}{%- endfor -%}
    {%- else -%}any{%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
{%- set f = tool.function %}
def {{ f.name }}(
{%- for name, spec in f.parameters.properties.items() -%}
    {{ name }}: {{ type_of(spec) }}{{ " = " ~ spec.default if spec.default is defined }}
    {%- if not loop.last %}, {% endif %}
{%- endfor %}):
    {{ f.description | indent(4) }}
    {%- if f.parameters.required %}

    needs: {{ f.parameters.required | join(", ") }}
    {%- endif %}
{% endfor %}"""

FAMILIES = {
    "chatml": CHATML,
    "llama2": LLAMA2,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "gemma": GEMMA,
    "smollm3": SMOLLM3,
    "phi3": PHI3,
    "phi4": PHI4,
    "tool_types": TYPES,
}

CONVERSATIONS = ("one", "system_turns", "white_space", "parts", "thinking", "tool_call", "two_tool_calls", "two_users")


def _cases():
    for name in CONVERSATIONS:
        context = {
            "messages": conversations.MESSAGES[name],
            "add_generation_prompt": name != "thinking",
            "bos_token": "<s>",
            "eos_token": "</s>",
        }
        if "tool" in name or name == "one":
            context["tools"] = [conversations.WEATHER, conversations.SEARCH]
        yield name, context, list(FAMILIES.values())


CASES = list(_cases())
