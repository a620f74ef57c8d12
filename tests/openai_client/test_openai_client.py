#!/usr/bin/env python3
"""Checks a running server with the official openai client: shapes, determinism, errors; never wording.

    test_openai_client.py --base-url http://127.0.0.1:8080/v1
    test_openai_client.py --server PROGRAM [ARGUMENT...]

The second form starts the program, which must say "on HOST:PORT" or "on http://HOST:PORT", and ends it
afterwards. {model} in an argument is the default model's path, as the end-to-end tests find it.
Works against any model with a chat template. Exit status 0: all passed; 1: a check failed (named on
stderr).
"""
import argparse
import asyncio
import contextlib
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
import urllib.error

import openai

import extension_tests
from asking import (MESSAGES, PROMPT, chat, check, check_usage, complete, expect_error, is_scripted,
                    metric, model_of, post, tokenize)


def test_models(client):
    models = client.models.list().data
    check(len(models) >= 1 and models[0].object == "model", "models are listed")
    check(client.models.retrieve(models[0].id).id == models[0].id, "a model is found by name")
    expect_error(openai.NotFoundError, lambda: client.models.retrieve("no-such-model"),
                 code="model_not_found")


def test_completion(client):
    first = complete(client)
    check(first.object == "text_completion" and first.id.startswith("cmpl-"), "shape of a completion")
    choice = first.choices[0]
    check(choice.index == 0 and choice.text, "one choice with text")
    check(choice.finish_reason in ("stop", "length"), "finish reason")
    check(choice.finish_reason == "stop" or first.usage.completion_tokens == 24, "length is max_tokens")
    check_usage(first.usage)
    check(complete(client).choices[0].text == choice.text, "greedy answers are the same again")


def test_completion_prompts(client):
    both = complete(client, prompt=[PROMPT, "Another text"])
    check([c.index for c in both.choices] == [0, 1], "a choice for each prompt, in order")
    check(both.choices[0].text == complete(client).choices[0].text, "alone or together: the same")
    tokens = tokenize(client, PROMPT)
    by_ids = complete(client, prompt=tokens)
    check(by_ids.choices[0].text == both.choices[0].text, "token ids or text: the same")
    check(by_ids.usage.prompt_tokens == len(tokens), "the prompt is what /tokenize says")


def test_chat(client):
    answer = chat(client)
    check(answer.object == "chat.completion" and answer.id.startswith("chatcmpl-"), "shape of a chat")
    message = answer.choices[0].message
    check(message.role == "assistant" and message.content, "an assistant's message")
    check(answer.choices[0].logprobs is None, "no logprobs unless asked for")
    check_usage(answer.usage)
    check(chat(client).choices[0].message.content == message.content, "the same again")
    parts = [{"role": "user", "content": [{"type": "text", "text": MESSAGES[0]["content"]}]}]
    check(chat(client, messages=parts).choices[0].message.content == message.content,
          "text parts are text")


def test_chat_stream(client):
    whole = chat(client)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    check(len({c.id for c in chunks}) == 1, "chunks of one answer share its id")
    check(chunks[0].choices[0].delta.role == "assistant", "the first chunk has the role")
    check(all(c.usage is None for c in chunks[:-1]), "only the last chunk has usage")
    check(chunks[-1].choices == [], "the usage chunk has no choices")
    check_usage(chunks[-1].usage)
    check(chunks[-1].usage.completion_tokens == whole.usage.completion_tokens, "the same count")
    text = "".join(c.choices[0].delta.content or "" for c in chunks[:-1])
    check(text == whole.choices[0].message.content, "streamed or whole: the same text")
    reasons = [c.choices[0].finish_reason for c in chunks[:-1]]
    check(reasons[-1] == whole.choices[0].finish_reason, "the finish reason comes last")
    check(not any(reasons[:-1]), "and once")
    plain = list(chat(client, stream=True))
    check(all(c.usage is None and c.choices for c in plain), "no usage chunk unless asked for")


def test_completion_stream(client):
    chunks = list(complete(client, stream=True))
    text = "".join(c.choices[0].text for c in chunks)
    check(text == complete(client).choices[0].text, "streamed or whole: the same text")
    check(len(chunks) > 3, "text comes in pieces")


def test_completion_stream_with_usage(client):
    chunks = list(complete(client, stream=True, stream_options={"include_usage": True}))
    check(chunks[-1].choices == [] and all(c.choices for c in chunks[:-1]), "usage comes last, alone")
    check_usage(chunks[-1].usage)
    check(chunks[-1].usage.completion_tokens == complete(client).usage.completion_tokens, "the same count")


def test_stream_of_several_completions(client):
    settings = {"prompt": [PROMPT, "Another text"], "n": 2, "best_of": 2, "temperature": 1, "seed": 9}
    whole = [c.text for c in complete(client, **settings).choices]
    texts = [""] * 4
    for chunk in complete(client, stream=True, **settings):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    check(texts == whole, "choices of several prompts, each as when answered whole")


def test_stream_of_several_choices(client):
    chunks = list(chat(client, stream=True, n=3, temperature=1, seed=5))
    check({c.choices[0].index for c in chunks} == {0, 1, 2}, "all choices are streamed")
    texts = ["".join(c.choices[0].delta.content or "" for c in chunks if c.choices[0].index == i)
             for i in range(3)]
    whole = chat(client, n=3, temperature=1, seed=5)
    check(texts == [c.message.content for c in whole.choices], "each as when answered whole")


def test_closing_a_stream_early(client):
    stream = chat(client, stream=True, max_tokens=200)
    next(iter(stream))
    stream.close()
    check(chat(client).choices[0].message.content, "the server goes on")


def test_n_and_seed(client):
    one = chat(client, n=2, temperature=1, seed=7)
    again = chat(client, n=2, temperature=1, seed=7)
    check([c.index for c in one.choices] == [0, 1], "n choices")
    check([c.message.content for c in one.choices] == [c.message.content for c in again.choices],
          "a seed makes sampling repeatable")
    greedy = complete(client, n=2)
    check(greedy.choices[0].text == greedy.choices[1].text, "greedy choices are alike")
    best = complete(client, best_of=3, n=1, temperature=1, seed=3)
    check(len(best.choices) == 1, "best_of returns n")
    check(best.usage.completion_tokens >= 3, "and counts all it generated")


def test_seeds_differ_and_best_of_ranks(client):
    texts = {chat(client, temperature=1, seed=seed).choices[0].message.content for seed in range(4)}
    check(len(texts) > 1, "other seeds, other answers")
    several = complete(client, n=2, best_of=4, temperature=1, seed=3, logprobs=0)
    check([c.index for c in several.choices] == [0, 1], "n of best_of")
    means = [sum(c.logprobs.token_logprobs) / len(c.logprobs.token_logprobs) for c in several.choices]
    check(means[0] >= means[1], "the best first")
    expect_error(openai.BadRequestError, lambda: complete(client, n=3, best_of=2), param="best_of")


def test_max_completion_tokens(client):
    settings = {"model": model_of(client), "messages": MESSAGES, "temperature": 0,
                "extra_body": {"ignore_eos": True}}
    few = client.chat.completions.create(max_completion_tokens=5, **settings)
    check(few.usage.completion_tokens == 5, "as many as asked for")
    check(few.choices[0].finish_reason == "length", "and it says why it ends")
    both = client.chat.completions.create(max_tokens=9, max_completion_tokens=4, **settings)
    check(both.usage.completion_tokens == 4, "the newer name counts")


def test_cached_tokens(client):
    prompt = "A text that no other test here begins with. " + "It has many words. " * 40
    first, second = complete(client, prompt=prompt), complete(client, prompt=prompt)
    cached = second.usage.prompt_tokens_details.cached_tokens
    check(cached >= second.usage.prompt_tokens // 2, f"{cached} tokens of a known prompt are cached")
    check(first.choices[0].text == second.choices[0].text, "cached or not: the same answer")
    salted = complete(client, prompt=prompt, extra_body={"cache_salt": "of somebody else"})
    check(salted.choices[0].text == first.choices[0].text, "salted: the same answer")
    if not is_scripted(client):
        check(salted.usage.prompt_tokens_details.cached_tokens == 0, "salted: nothing is shared")


def test_chat_logprobs(client):
    answer = chat(client, logprobs=True, top_logprobs=3)
    choice = answer.choices[0]
    entries = choice.logprobs.content
    check(len(entries) in (answer.usage.completion_tokens, answer.usage.completion_tokens - 1),
          "an entry for each token, but the one that ends the text")
    for entry in entries:
        check(entry.logprob <= 0, "a logprob is at most 0")
        check(len(entry.top_logprobs) == 3, "three alternatives")
        tops = [top.logprob for top in entry.top_logprobs]
        check(tops == sorted(tops, reverse=True), "the likeliest first")
    spelled = b"".join(bytes(entry.bytes) for entry in entries)
    check(choice.message.content.encode() in spelled, "the tokens' bytes spell the text")
    bare = chat(client, logprobs=True).choices[0].logprobs.content
    check([e.token for e in bare] == [e.token for e in entries], "the same tokens")
    check(all(e.top_logprobs == [] for e in bare), "no alternatives unless asked for")


def test_completion_logprobs_and_echo(client):
    choice = complete(client, logprobs=2).choices[0]
    logprobs = choice.logprobs
    count = len(logprobs.tokens)
    check(count == len(logprobs.token_logprobs) == len(logprobs.top_logprobs) == len(logprobs.text_offset),
          "parallel arrays")
    for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
        check(abs(top[token] - logprob) < 1e-6 and len(top) in (2, 3), "the token is among its top")
    check(logprobs.text_offset == sorted(logprobs.text_offset), "offsets go up")
    echoed = complete(client, logprobs=1, echo=True, max_tokens=0).choices[0]
    check(echoed.text == PROMPT, "the echo is the prompt")
    check(echoed.logprobs.token_logprobs[0] is None, "nothing predicts the first token")
    check(all(x <= 0 for x in echoed.logprobs.token_logprobs[1:]), "the others have logprobs")
    both = complete(client, echo=True)
    check(both.choices[0].text == PROMPT + choice.text, "prompt and completion")


def test_stop(client):
    free = complete(client).choices[0].text
    stop = free[len(free) // 2:len(free) // 2 + 2]
    stopped = complete(client, stop=[stop])
    check(stopped.choices[0].text == free[:free.index(stop)], "the text ends before the stop string")
    check(stopped.choices[0].finish_reason == "stop", "with reason stop")
    streamed = "".join(c.choices[0].text for c in complete(client, stop=[stop], stream=True))
    check(streamed == stopped.choices[0].text, "nothing of it is streamed")
    included = complete(client, stop=stop, extra_body={"include_stop_str_in_output": True})
    check(included.choices[0].text == stopped.choices[0].text + stop, "unless asked for")


def test_stop_in_chats_and_lists(client):
    free = chat(client).choices[0].message.content
    stop = free[3:5]
    for given in (stop, [stop], ["\x00 never said", stop]):
        stopped = chat(client, stop=given).choices[0]
        check(stopped.message.content == free[:free.index(stop)], "the text ends before the stop string")
        check(stopped.finish_reason == "stop", "with reason stop")
    expect_error(openai.BadRequestError, lambda: chat(client, stop=[""]), param="stop")


def test_logit_bias(client):
    token = tokenize(client, " stone")[-1]
    biased = complete(client, logit_bias={str(token): 100}, max_tokens=4).choices[0].text
    if not is_scripted(client):
        check(biased == " stone" * 4, f"a token with the largest bias is chosen: {biased!r}")
        top = complete(client, max_tokens=1, logprobs=1).choices[0].logprobs.tokens[0]
        banned = complete(client, max_tokens=1, logit_bias={str(tokenize(client, top)[-1]): -100})
        check(banned.choices[0].text != top, "one with the smallest is not")
    for wrong in ({"x": 1}, {"999999999": 1}, {str(token): 101}, {str(token): "much"}):
        expect_error(openai.BadRequestError, lambda w=wrong: complete(client, logit_bias=w))


def test_penalties(client):
    prompt = "one two three one two three one two three one two"
    plain = complete(client, prompt=prompt).choices[0].text
    for penalties in ({"frequency_penalty": 2}, {"presence_penalty": 2},
                      {"extra_body": {"repetition_penalty": 2}}):
        first = complete(client, prompt=prompt, **penalties).choices[0].text
        check(first == complete(client, prompt=prompt, **penalties).choices[0].text, "repeatable")
        if not is_scripted(client):
            check(first != plain, f"{penalties} changes a text that repeats itself")
    for name in ("frequency_penalty", "presence_penalty"):
        expect_error(openai.BadRequestError, lambda n=name: complete(client, **{n: 2.5}), param=name)


def test_sampling_fields(client):
    settings = {"temperature": 0.7, "top_p": 0.9, "presence_penalty": 0.5, "frequency_penalty": 0.5,
                "seed": 11, "user": "someone"}
    extra = {"top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1, "cache_salt": "a", "priority": 1}
    one = chat(client, **settings, extra_body=extra)
    check(one.choices[0].message.content == chat(client, **settings, extra_body=extra)
          .choices[0].message.content, "repeatable")
    exact = complete(client, max_tokens=40, extra_body={"ignore_eos": True})
    check(exact.usage.completion_tokens == 40, "ignore_eos with max_tokens gives an exact length")


def test_errors(client):
    bad = openai.BadRequestError
    expect_error(openai.NotFoundError, lambda: chat(client, model="no-such-model"),
                 param="model", code="model_not_found")
    expect_error(bad, lambda: chat(client, temperature=-1), param="temperature")
    expect_error(bad, lambda: chat(client, messages=[]), param="messages")
    expect_error(bad, lambda: chat(client, n=1000), param="n")
    expect_error(bad, lambda: chat(client, response_format={"type": "json_object"}),
                 param="response_format")
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    expect_error(bad, lambda: chat(client, messages=image), param="messages[0].content[0].type")
    expect_error(bad, lambda: complete(client, max_tokens=10**9), code="context_length_exceeded")
    check(chat(client).choices[0].message.content, "the server goes on")


def test_errors_of_type(client):
    bad = openai.BadRequestError
    for wrong in ({"max_tokens": -1}, {"max_tokens": "many"}, {"top_p": 2}, {"seed": "x"}, {"n": 0},
                  {"stream": "yes"}, {"top_logprobs": 99, "logprobs": True}, {"top_logprobs": 2}):
        last = list(wrong)[0] if "top_logprobs" not in wrong else "top_logprobs"
        error = expect_error(bad, lambda w=wrong: chat(client, extra_body=w), param=last)
        check(error.status_code == 400 and error.type == "invalid_request_error", "OpenAI's shape")
    expect_error(bad, lambda: complete(client, prompt=[]), param="prompt")
    expect_error(bad, lambda: complete(client, prompt=[10**9]))
    expect_error(openai.NotFoundError, lambda: client.files.list(), code="not_found")


def async_client(client):
    return openai.AsyncOpenAI(base_url=client.base_url, api_key="unused", max_retries=0, timeout=120)


def test_async_requests_at_once(client):
    questions = [[{"role": "user", "content": f"Name {i} colours."}] for i in range(8)]
    alone = [chat(client, messages=question).choices[0].message.content for question in questions]

    async def ask_all():
        async with async_client(client) as asynchronous:
            answers = await asyncio.gather(*(
                asynchronous.chat.completions.create(
                    model=model_of(client), messages=question, temperature=0, max_tokens=24)
                for question in questions))
        return [answer.choices[0].message.content for answer in answers]

    check(asyncio.run(ask_all()) == alone, "together or alone: the same answers")


def test_async_cancellation(client):
    settings = {"model": model_of(client), "prompt": PROMPT, "max_tokens": 2000, "stream": True,
                "extra_body": {"ignore_eos": True}}

    async def cancel_some():
        async with async_client(client) as asynchronous:
            started = asyncio.Semaphore(0)

            async def read():
                async for _ in await asynchronous.completions.create(**settings):
                    started.release()

            tasks = [asyncio.create_task(read()) for _ in range(4)]
            for _ in tasks:
                await asyncio.wait_for(started.acquire(), timeout=60)
            for task in tasks:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

    ends = asyncio.run(cancel_some())
    check(all(isinstance(end, asyncio.CancelledError) for end in ends), f"cancelled: {ends}")
    check(complete(client).choices[0].text, "the server goes on")
    check_becomes_idle(client)


def check_becomes_idle(client):
    """Cancelled requests leave nothing running."""
    deadline = time.monotonic() + 20
    while (running := metric(client, "vllm:num_requests_running")) and time.monotonic() < deadline:
        time.sleep(0.02)
    check(not running, f"{running} requests still run")


def test_tokenize(client):
    answer = post(client, "/tokenize", {"prompt": PROMPT, "add_special_tokens": False})
    check(answer["count"] == len(answer["tokens"]) > 0 and answer["max_model_len"] > 0, "shape")
    back = post(client, "/detokenize", {"tokens": answer["tokens"]})
    check(back["prompt"] == PROMPT, "and back")
    of_chat = post(client, "/tokenize", {"messages": MESSAGES})
    check(of_chat["count"] == chat(client).usage.prompt_tokens, "a chat's tokens are those it uses")


def with_model(argument):
    if "{model}" not in argument:
        return argument
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
    import ashlar_cli
    return argument.replace("{model}", str(ashlar_cli.cached_model("smollm2")))


@contextlib.contextmanager
def started(command):
    """The base URL of a server that runs meanwhile. What it says goes to our stderr."""
    command = [with_model(argument) for argument in command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        urls = queue.Queue()

        def pass_on():
            for line in process.stdout:
                sys.stderr.write(line)
                if found := re.search(r" on (?:http://)?([\w.]+:\d+)", line):
                    urls.put(f"http://{found[1]}/v1")
            urls.put(None)

        reader = threading.Thread(target=pass_on, daemon=True)
        reader.start()
        try:
            if (url := urls.get()) is None:
                raise RuntimeError(f"{command[0]} ended before it listened")
            yield url
        finally:
            process.terminate()
            reader.join(timeout=30)  # reads to the end before the pipe is closed


def run(base_url):
    client = openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=120)
    failed = 0
    for name, test in [*globals().items(), *vars(extension_tests).items()]:
        if name.startswith("test_"):
            try:
                test(client)
                print(f"ok      {name}")
            except (AssertionError, openai.OpenAIError, urllib.error.URLError) as error:
                failed += 1
                print(f"FAILED  {name}: {error!r}", file=sys.stderr)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser()
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--base-url", help="http://127.0.0.1:8080/v1")
    where.add_argument("--server", nargs=argparse.REMAINDER, help="a program to start, and its arguments")
    arguments = parser.parse_args()
    if arguments.base_url:
        return run(arguments.base_url)
    with started(arguments.server) as base_url:
        return run(base_url)


if __name__ == "__main__":
    sys.exit(main())
