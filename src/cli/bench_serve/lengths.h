// Lengths of prompts and answers in tokens.
#pragma once

#include <string_view>

namespace nibble::cli {

inline constexpr int kMaxLengthTokens{1 << 20};

struct LengthDistribution {
  enum class Kind { kFixed, kUniform, kExponential, kLogNormal };
  Kind kind{Kind::kFixed};
  int least{1}, most{1};  // range of the result
  double mean{1};         // kExponential, kLogNormal: the mean before clamping to the range
  double sigma{0};        // kLogNormal: standard deviation of the logarithm

  int draw(double unit) const;  // unit: uniform in [0, 1)
};
// Parses "512" (fixed), "128-1024" (uniform), "exp:512" (exponential with that mean) or "lognormal:512:0.8"
// (with that mean, and that standard deviation of the logarithm). The last two are clamped at 8 times the
// mean, which one request in 3,000 would exceed (exp), or one in 200 (lognormal with a sigma of 1). Throws
// InputError; `origin` is the flag.
LengthDistribution read_length(std::string_view text, std::string_view origin);

// A named workload of InferenceX: lengths are uniform from 80 % to 100 % of the length in the name.
struct NamedWorkload {
  std::string_view name;  // "8k1k": prompts of up to 8,192 tokens, answers of up to 1,024
  LengthDistribution prompt_tokens, output_tokens;
};
const NamedWorkload* find_workload(std::string_view name);  // null: unknown

inline constexpr std::string_view kWorkloadNames{"1k1k, 1k8k, 8k1k"};

}  // namespace nibble::cli
