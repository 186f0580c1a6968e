"""The Responses API: streams the events of an answer, then asks a second question that continues the conversation."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("NIBBLE_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("NIBBLE_API_KEY", "none"),
)
model = client.models.list().data[0].id
with client.responses.stream(model=model, input="What is 17 + 25?", instructions="Be brief.") as stream:
    for event in stream:
        if event.type in ("response.reasoning_text.delta", "response.output_text.delta"):
            print(event.delta, end="", flush=True)
        elif event.type == "response.output_item.done":
            print(f"   <- {event.item.type}")
    first = stream.get_final_response()
second = client.responses.create(model=model, input="And what is 1 + 1?", previous_response_id=first.id)
print(second.output_text)
print(f"{second.usage.input_tokens_details.cached_tokens} of {second.usage.input_tokens} tokens were cached")
