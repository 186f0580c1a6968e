"""The model writes Python, and this program runs it in a sandbox: a bubblewrap process without network that sees the
system's programs and an empty folder, for at most ten seconds. nibble itself never runs anything. gpt-oss was trained
with such a tool.

    apt install bubblewrap && pip install openai
    python examples/python_tool.py "What is the 100th prime number?"
"""

import json
import os
import resource
import subprocess
import sys

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("NIBBLE_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("NIBBLE_API_KEY", "none"),
)
model = client.models.list().data[0].id

SANDBOX = "bwrap --unshare-all --die-with-parent --new-session --clearenv --ro-bind /usr /usr --proc /proc --dev /dev".split()
SANDBOX += "--symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin --tmpfs /work --chdir /work".split()
MOST = 4000  # most characters of a result


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24))


def run_python(code):
    try:
        command = [*SANDBOX, "/usr/bin/python3", "-I", "-"]
        done = subprocess.run(command, input=code, text=True, capture_output=True, timeout=10, preexec_fn=limit)
    except FileNotFoundError:
        return "Error: there is no sandbox here (bubblewrap is not installed), so nothing is run"
    except subprocess.TimeoutExpired:
        return "Error: it took longer than 10 seconds"
    told = done.stdout + done.stderr
    return told if len(told) <= MOST else told[:MOST] + "\n[the rest is left out]"


parameters = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"], "additionalProperties": False}
description = "Runs Python and returns what it prints. Nothing is kept between calls, and there is no network."
tools = [{"type": "function", "function": {"name": "python", "description": description, "parameters": parameters, "strict": True}}]
messages = [{"role": "user", "content": " ".join(sys.argv[1:]) or "What is 17 * 25?"}]
# A limit, in case the model keeps calling.
for _ in range(8):
    reply = client.chat.completions.create(model=model, messages=messages, tools=tools, max_tokens=2000)
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        break
    for call in message.tool_calls:
        try:
            code = json.loads(call.function.arguments)["code"]
        except json.JSONDecodeError:  # the answer was cut off
            code = 'raise SystemExit("Error: the call was not complete")'
        print("runs", code)
        result = run_python(code)
        print("gets", result)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
print(message.content)
