"""What every test of a server by the openai client uses."""
import json
import re
import urllib.error
import urllib.request

import openai

PROMPT = "Once upon a time there was a small stone house"
MESSAGES = [{"role": "user", "content": "Name three colours."}]


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def model_of(client):
    return client.models.list().data[0].id


def chat(client, **arguments):
    settings = {"model": model_of(client), "messages": MESSAGES, "temperature": 0, "max_tokens": 24}
    return client.chat.completions.create(**{**settings, **arguments})


def complete(client, **arguments):
    settings = {"model": model_of(client), "prompt": PROMPT, "temperature": 0, "max_tokens": 24}
    return client.completions.create(**{**settings, **arguments})


def check_usage(usage):
    check(usage.prompt_tokens > 0, "prompt tokens are counted")
    check(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, "total is the sum")
    cached = usage.prompt_tokens_details.cached_tokens
    check(0 <= cached <= usage.prompt_tokens, "cached tokens are part of the prompt")


def expect_error(kind, call, param=None, code=None):
    try:
        call()
    except kind as error:
        check(error.body["message"], "an error has a message")
        check(param is None or error.body["param"] == param, f"param {error.body['param']} is {param}")
        check(code is None or error.body["code"] == code, f"code {error.body['code']} is {code}")
        return error
    raise AssertionError(f"{kind.__name__} was expected")


def metric(client, name):
    """The value of a metric without labels, or summed over them; None where the server has no /metrics."""
    root = str(client.base_url).rstrip("/").removesuffix("/v1")
    try:
        with urllib.request.urlopen(f"{root}/metrics") as response:
            lines = response.read().decode().splitlines()
    except urllib.error.HTTPError:
        return None
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[ {{]", line))


def is_scripted(client):
    """Whether the engine is the one of the tests, which does not sample."""
    return model_of(client) == "scripted"


def post(client, path, body):
    root = str(client.base_url).rstrip("/").removesuffix("/v1")
    request = urllib.request.Request(root + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def tokenize(client, text):
    return post(client, "/tokenize", {"prompt": text})["tokens"]
