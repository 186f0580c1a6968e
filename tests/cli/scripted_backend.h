// A backend without a model. Its answer to every prompt has the same tokens.
#pragma once

#include <utility>
#include <vector>

#include "backend/backend.h"

namespace nibble::cli {

class ScriptedBackend : public Backend {
 public:
  ScriptedBackend(Config config, size_t num_prompt_tokens, std::vector<TokenId> script)
      : config_(std::move(config)), num_prompt_tokens_(num_prompt_tokens), script_(std::move(script)) {}

  std::string_view name() const override { return "scripted"; }
  const Config& config() const override { return config_; }
  std::vector<KernelChoice> kernels() const override { return {}; }

  StepResult step(const Batch& batch) override {
    StepResult result;
    for (const Run& run : batch.runs) {
      for (const OutputRow& row : run.outputs) {
        const size_t length = static_cast<size_t>(run.first_position + row.token_index) + 1;
        SampledToken& sampled = result.outputs.emplace_back();
        sampled.token = script_[(length - num_prompt_tokens_) % script_.size()];
      }
    }
    if (batch.want_logits)
      result.logits.assign(result.outputs.size() * static_cast<size_t>(config_.vocab), 1.5f);
    return result;
  }

 private:
  Config config_;
  size_t num_prompt_tokens_;
  std::vector<TokenId> script_;
};

}  // namespace nibble::cli
