// Configuration of a model of the gpt-oss architecture. The 20b and the 120b differ only in the number of
// layers and experts; other widths, heads and windows work too.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensors/index_range.h"
#include "core/tokens/token.h"

namespace nibble {

enum class LayerKind { kSliding, kFull };

// YaRN (Peng et al. 2023) divides low RoPE frequencies by `factor`, keeps high ones, and blends the two
// values in a range between. Each frequency rotates one pair of a head's elements.
struct RopeConfig {
  double theta{150000};
  double factor{32};  // 1: plain RoPE
  double beta_fast{32}, beta_slow{1};
  int original_context{4096};
  bool truncate{false};  // round both ends of the blended range to whole pairs; false in gpt-oss

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct Config {
  int num_layers{0};
  int hidden{0};                       // H: width of the residual stream
  int intermediate{0};                 // I: width of one expert
  int num_heads{0};                    // Nq: query heads
  int num_kv_heads{0};                 // Nkv: query head j reads key/value head j / (Nq / Nkv)
  int head_dim{64};                    // D: width of a head
  int num_experts{0};                  // E: experts per layer
  int experts_per_token{0};            // K: experts chosen per token
  int vocab{0};                        // V: tokens in the vocabulary
  int window{128};                     // positions that a sliding layer sees, including the current one
  std::vector<LayerKind> layer_kinds;  // [num_layers]: full or sliding
  float rms_eps{1e-5f};
  float swiglu_limit{7.0f};
  RopeConfig rope;
  int max_context{131072};
  std::vector<TokenId> eos;  // stop tokens: from config.json, and Harmony's if the tokenizer has them
  // Experts whose weights this rank has (model/shares/share.h); not set: all. Routers choose among all.
  std::optional<IndexRange> own_experts{};

  IndexRange experts() const { return own_experts.value_or(IndexRange{0, num_experts}); }

  friend bool operator==(const Config&, const Config&) = default;
};
// A constant of gpt-oss's SwiGLU that no configuration file states.
inline constexpr float kSwigluAlpha{1.702f};

// Parses a config.json of Hugging Face (old spelling `rope_scaling`, new `rope_parameters`) or of OpenAI's
// `original/` folder. Throws InputError that names file (`origin`), field, value and accepted values.
Config parse_config(std::string_view json, const std::string& origin);
Config read_config(const std::filesystem::path& file);
std::string to_json(const Config& config);  // uses Hugging Face's names of the fields

// Returns the configuration of "gpt-oss-20b" or "gpt-oss-120b"; nullopt for other names.
std::optional<Config> named_config(std::string_view name);

}  // namespace nibble
