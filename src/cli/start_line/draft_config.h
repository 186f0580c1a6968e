// Builds the JSON of --speculative-config from vLLM's dotted flags and from SGLang's flags.
#pragma once

#include <string>
#include <vector>

#include "core/text/json.h"

namespace nibble::cli {

class DraftConfig {
 public:
  void add(const std::string& flag, const nlohmann::json& members);  // `flag`: a flag that flags() then lists
  bool empty() const { return flags_.empty(); }
  std::string flags() const;  // all flags passed to add(): "--speculative-algorithm, --speculative-num-steps"
  std::string text() const;

 private:
  std::vector<std::string> flags_;
  nlohmann::json config_ = nlohmann::json::object();
};

}  // namespace nibble::cli
