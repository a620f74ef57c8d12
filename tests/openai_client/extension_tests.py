"""Fields beyond OpenAI's: beams, deadlines, texts longer than the context."""
import openai

from asking import check, chat, complete, expect_error, is_scripted, post, tokenize


def test_beam_search(client):
    if is_scripted(client):  # it says what it was told to, however it is asked
        return
    settings = {"logprobs": 0, "max_tokens": 12}
    wide = {"use_beam_search": True, "beam_width": 4}
    best = complete(client, n=3, extra_body=wide, **settings)
    check([c.index for c in best.choices] == [0, 1, 2], "n of the beams")
    check(len({c.text for c in best.choices}) == 3, "which differ")
    greedy = complete(client, **settings)
    narrow = complete(client, extra_body={"use_beam_search": True, "beam_width": 1}, **settings)
    check(narrow.choices[0].text == greedy.choices[0].text, "one beam is greedy")
    sums = [sum(c.logprobs.token_logprobs) for c in best.choices]
    if all(len(c.logprobs.tokens) == 12 for c in best.choices):  # else lengths weigh too
        check(sums == sorted(sums, reverse=True), "the likeliest first")
    talk = chat(client, n=2, extra_body={"use_beam_search": True})
    check(len(talk.choices) == 2 and talk.usage.completion_tokens > 0, "chats as well")
    bad = openai.BadRequestError
    expect_error(bad, lambda: complete(client, n=3, extra_body={**wide, "beam_width": 2}),
                 param="beam_width")
    expect_error(bad, lambda: complete(client, stream=True, extra_body=wide), param="stream")
    expect_error(bad, lambda: complete(client, extra_body={"beam_width": 2}), param="beam_width")


def test_min_tokens(client):
    if is_scripted(client):
        return
    plain = complete(client, extra_body={"ignore_eos": True, "return_tokens_as_token_ids": True},
                     logprobs=0)
    third = int(plain.choices[0].logprobs.tokens[2].removeprefix("token_id:"))
    early = complete(client, extra_body={"stop_token_ids": [third]})
    check(early.usage.completion_tokens <= 3, "a stop token ends the text")
    late = complete(client, extra_body={"stop_token_ids": [third], "min_tokens": 8})
    check(late.usage.completion_tokens >= 8, "but not before min_tokens")
    expect_error(openai.BadRequestError, lambda: complete(client, extra_body={"min_tokens": 25}),
                 param="min_tokens")


def test_priority_user_and_timeout(client):
    plain = complete(client)
    told = complete(client, user="somebody", extra_body={"priority": -2, "timeout": 100})
    check(told.choices[0].text == plain.choices[0].text, "they change no answer")
    settings = {"max_tokens": 400, "temperature": 1, "extra_body": {"timeout": 0.01, "ignore_eos": True}}
    if not is_scripted(client):
        late = expect_error(openai.InternalServerError, lambda: complete(client, **settings),
                            code="deadline_exceeded")
        check(late.status_code == 504, "a deadline that passed is a 504")
    expect_error(openai.BadRequestError, lambda: complete(client, extra_body={"timeout": 0}),
                 param="timeout")


def test_text_longer_than_the_context(client):
    context = post(client, "/tokenize", {"prompt": "x"})["max_model_len"]
    if is_scripted(client) or context > 4096:  # it would take long
        return
    prompt = tokenize(client, "The mill stands by the river. ") * (context // 7 + 8)
    settings = {"prompt": prompt, "max_tokens": 12}
    refused = expect_error(openai.BadRequestError, lambda: complete(client, **settings),
                           code="context_length_exceeded")
    check(str(len(prompt)) in refused.body["message"], "the numbers are told")
    stream = {"context_overflow": "stream", "context_window": 64, "context_sinks": 2}
    answer = complete(client, extra_body=stream, **settings)
    dropped = answer.usage.model_extra["context_dropped_tokens"]
    check(dropped >= len(prompt) - context, f"{dropped} of {len(prompt)} tokens were left behind")
    check(answer.usage.prompt_tokens == len(prompt), "the prompt is counted whole")
    again = complete(client, extra_body=stream, **settings)
    check(answer.choices[0].text == again.choices[0].text, "the same again")
    short = complete(client, max_tokens=12, extra_body=stream)
    check("context_dropped_tokens" not in (short.usage.model_extra or {}), "nothing is left behind")
    expect_error(openai.BadRequestError, lambda: complete(client, extra_body={"context_sinks": 2}),
                 param="context_sinks")
