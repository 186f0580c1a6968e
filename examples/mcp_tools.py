"""The model uses the tools of an MCP server that this program starts and calls: nibble itself knows only functions.

    pip install openai mcp
    python examples/mcp_tools.py "Which files are in /tmp?" npx -y @modelcontextprotocol/server-filesystem /tmp
"""

import asyncio
import json
import os
import sys

import mcp
from openai import AsyncOpenAI

client = AsyncOpenAI(
    base_url=os.environ.get("NIBBLE_URL", "http://127.0.0.1:8080") + "/v1",
    api_key=os.environ.get("NIBBLE_API_KEY", "none"),
)


async def as_functions(server):
    tools = (await server.list_tools()).tools
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema},
        }
        for tool in tools
    ]


async def call(server, function):
    """Returns the result as text. Errors are returned to the model, which can then try something else."""
    try:
        result = await server.call_tool(function.name, json.loads(function.arguments))
    except (mcp.MCPError, json.JSONDecodeError) as error:
        return f"Error: {error}"
    return "\n".join(part.text for part in result.content if part.type == "text")


async def main(question, command):
    model = (await client.models.list()).data[0].id
    async with mcp.Client(mcp.StdioServerParameters(command=command[0], args=command[1:])) as server:
        tools = await as_functions(server)
        messages = [{"role": "user", "content": question}]
        # A limit, in case the model keeps calling.
        for turn in range(8):
            reply = await client.chat.completions.create(
                model=model,
                messages=messages,
                tools=tools,
                # The first call is required, and its arguments must match the tool's schema; after that the model
                # decides.
                tool_choice="auto" if turn else "required",
                temperature=0,
                max_tokens=2000,
            )
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for asked in message.tool_calls or []:
                print("calls", asked.function.name, asked.function.arguments)
                result = await call(server, asked.function)
                print("gets", result)
                messages.append({"role": "tool", "tool_call_id": asked.id, "content": result})
            if not message.tool_calls:
                return print(message.content)


if len(sys.argv) < 3:
    sys.exit(__doc__)
asyncio.run(main(sys.argv[1], sys.argv[2:]))
