// What may be asked of the engine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/token.h"
#include "model/batch.h"

namespace nibble {

enum class RequestId : uint64_t {};

struct StopParams {
  int max_tokens{0};                 // 0: as many as the context has room for
  std::vector<TokenId> tokens;       // the chosen one ends the text and is reported
  std::vector<std::string> strings;  // the text ends before the first of them, also across tokens
};

struct Request {
  std::vector<TokenId> prompt;  // at least one token
  SampleParams sample;
  StopParams stop;
};

}  // namespace nibble
