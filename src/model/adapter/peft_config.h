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
  std::vector<std::pair<std::string, double>> own_ranks;   // rank_pattern: end of a module's name, rank
  std::vector<std::pair<std::string, double>> own_alphas;  // alpha_pattern: end of a module's name, alpha
  std::string base_model;                                  // empty if not stated

  int rank_of(std::string_view module) const;
  // Factor of a module's update: alpha / rank, or alpha / sqrt(rank) if is_rank_stabilised.
  float scale_of(std::string_view module, int rank_of_module) const;
};

// Throws InputError for a field that changes the result in a way that nibble does not support (DoRA, biases,
// modules saved as a whole, ...), and for an unknown field that is not empty. `file` is for messages.
PeftConfig parse_peft_config(std::string_view json, const std::filesystem::path& file);

}  // namespace nibble
