#!/usr/bin/env bash
# Calls every endpoint of a running server (nibble serve tiny) with curl.
set -euo pipefail
url=${NIBBLE_URL:-http://127.0.0.1:8080}
key=(-H "Authorization: Bearer ${NIBBLE_API_KEY:-none}")

ask() {  # ask PATH [BODY]
  printf '\n== %s\n' "$1"
  if [ $# = 1 ]; then
    curl -sS --fail-with-body "${key[@]}" "$url$1"
  else
    curl -sS --fail-with-body -N "${key[@]}" "$url$1" -H "Content-Type: application/json" -d "$2"
  fi
}

ask /health
ask /version
ask /v1/models
question='{"role": "user", "content": "What is 17 + 25?"}'
ask /v1/chat/completions "{\"messages\": [$question], \"reasoning_effort\": \"low\"}"
ask /v1/chat/completions "{\"messages\": [$question], \"max_tokens\": 8, \"stream\": true, \"stream_options\": {\"include_usage\": true}}"
ask /v1/completions '{"prompt": "It was a dark and", "max_tokens": 20, "n": 2}'
ask /v1/responses '{"input": "What is 17 + 25?"}'
ask /apply-template "{\"messages\": [$question]}"
ask /tokenize '{"prompt": "What is 17 + 25?", "return_token_strs": true}'
ask /detokenize '{"tokens": [1, 2, 3]}'
ask /metrics | grep -E '^nibble:(num_requests|request_success|generation)'
