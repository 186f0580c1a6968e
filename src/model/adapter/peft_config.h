// The adapter_config.json of a PEFT adapter.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nibble {

struct PeftConfig {
  double alpha{0};
  int rank{0};
  bool is_rank_stabilised{false};                          // use_rslora
  bool has_own_ranks{false};                               // rank_pattern: modules of other ranks
  std::vector<std::pair<std::string, double>> own_alphas;  // alpha_pattern: ends of modules' names
  std::string base_model;                                  // empty if not stated

  // The factor of a module's update: alpha / rank, or alpha / sqrt(rank).
  float scale_of(std::string_view module, int rank_of_module) const;
};

// Throws InputError for a field that changes the result and that nibble does not apply (DoRA, biases, modules
// saved as a whole, ...), also if its name is unknown. `file` is for messages.
PeftConfig parse_peft_config(std::string_view json, const std::filesystem::path& file);

}  // namespace nibble
