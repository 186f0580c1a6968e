// The numbers of a model of the gpt-oss architecture. The 20b and the 120b differ in layers and experts alone; any other
// widths, heads, windows are as good.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/token.h"

namespace nibble {

enum class LayerKind { kSliding, kFull };

// YaRN (Peng et al. 2023): low frequencies are divided by `factor`, high ones kept, those between blended.
struct RopeConfig {
  double theta{150000};
  double factor{32};  // 1: plain RoPE
  double beta_fast{32}, beta_slow{1};
  int original_context{4096};
  bool truncate{false};  // whether the corners of the blend are rounded to whole dimensions; gpt-oss: no

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

struct Config {
  int num_layers{0};
  int hidden{0};                       // H
  int intermediate{0};                 // I, of one expert
  int num_heads{0};                    // Nq
  int num_kv_heads{0};                 // Nkv; query head j reads key/value head j / (Nq / Nkv)
  int head_dim{64};                    // D
  int num_experts{0};                  // E
  int experts_per_token{0};            // K
  int vocab{0};                        // V
  int window{128};                     // positions a sliding layer sees, the current one included
  std::vector<LayerKind> layer_kinds;  // [num_layers]
  float rms_eps{1e-5f};
  float swiglu_limit{7.0f};
  RopeConfig rope;
  int max_context{131072};
  std::vector<TokenId> eos;  // of config.json; where harmony's are known, those stop as well

  friend bool operator==(const Config&, const Config&) = default;
};
inline constexpr float kSwigluAlpha{1.702f};  // a constant of the architecture, in no file

// From the text of a config.json: Hugging Face's (old `rope_scaling` and new `rope_parameters` spelling) or OpenAI's
// `original/` one. Throws InputError naming field, value and what is accepted; `origin` names the file.
Config parse_config(std::string_view json, const std::string& origin);
Config read_config(const std::filesystem::path& file);
// The same in Hugging Face's spelling.
std::string to_json(const Config& config);

// "gpt-oss-20b" or "gpt-oss-120b"; nothing for another name.
std::optional<Config> named_config(std::string_view name);

}  // namespace nibble
