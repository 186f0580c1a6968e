"""The model calls a function and answers with its result. The reasoning is sent back with the call, because the model
needs it."""

import json
import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("NIBBLE_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("NIBBLE_API_KEY", "none"),
)
model = client.models.list().data[0].id


def get_weather(city):
    return {"city": city, "temperature": 7, "sky": "rain"}


tools = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
# A limit, in case the model keeps calling.
for _ in range(4):
    reply = client.chat.completions.create(model=model, messages=messages, tools=tools, temperature=0, max_tokens=500)
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        print("calls", call.function.name, call.function.arguments)
        try:
            result = get_weather(**json.loads(call.function.arguments))
        except (TypeError, json.JSONDecodeError) as error:  # the model writes the arguments, so they may be wrong
            result = {"error": str(error)}
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
print(message.content)
