"""Streams a chat: the model's reasoning in grey, then its answer."""

import os
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("NIBBLE_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("NIBBLE_API_KEY", "none"),
)
model = client.models.list().data[0].id
question = " ".join(sys.argv[1:]) or "What is 17 + 25?"
stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": question}],
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    if chunk.usage:
        cached = chunk.usage.prompt_tokens_details.cached_tokens
        print(f"\n({chunk.usage.prompt_tokens} tokens of prompt, {cached} of them cached; {chunk.usage.completion_tokens} answered)")
    for choice in chunk.choices:
        if thought := getattr(choice.delta, "reasoning_content", None):
            print(f"\033[90m{thought}\033[0m", end="", flush=True)
        if choice.delta.content:
            print(choice.delta.content, end="", flush=True)
