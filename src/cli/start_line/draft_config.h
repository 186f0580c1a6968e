// Builds the JSON of --speculative-config from vLLM's dotted flags and from SGLang's flags.
#pragma once

#include <string>
#include <vector>

#include "core/text/json.h"

namespace nibble::cli {

class DraftConfig {
 public:
  // Adds members to the JSON. `flag`: the flag that sets them; flags() lists it.
  void add(const std::string& flag, const nlohmann::json& members);
  bool empty() const { return flags_.empty(); }
  std::string flags() const;  // all flags passed to add(): "--speculative-algorithm, --speculative-num-steps"
  std::string text() const;

 private:
  std::vector<std::string> flags_;
  nlohmann::json config_ = nlohmann::json::object();
};

}  // namespace nibble::cli
