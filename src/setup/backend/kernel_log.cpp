#include "setup/backend/kernel_log.h"

#include <fmt/format.h>

#include "core/program/log.h"

namespace nibble {
namespace {

struct ScalesRow {
  std::string_view format, scales;
};
constexpr ScalesRow kScales[]{
    {"MXFP4", "E8M0 per 32"}, {"MXFP8", "E8M0 per 32"}, {"MXFP8x2", "E8M0 per 32"},
    {"FP8", "F32 per row"},   {"Q8_0", "F16 per 32"},   {"INT8", "F32 per 32"},
};

// Adds the type of a format's scales, if it has any: "MXFP4 (E8M0 per 32)".
std::string with_scales(std::string_view format) {
  for (const ScalesRow& row : kScales)
    if (row.format == format) return fmt::format("{} ({})", format, row.scales);
  return std::string(format);
}

std::string weights_text(const KernelChoice& row) {
  const bool is_cache = row.operation == Operation::kAppend || row.operation == Operation::kAttend;
  return is_cache ? fmt::format("KV cache {}", row.weights)  // a KV cache has no scales, not even in FP8
                  : fmt::format("weights {}", with_scales(row.weights));
}

}  // namespace

std::string shape_text(Operation operation, const Config& config) {
  const int q_rows = config.num_heads * config.head_dim, kv_rows = config.num_kv_heads * config.head_dim;
  switch (operation) {
    case Operation::kEmbed:
    case Operation::kUnembed:
      return fmt::format("[{}, {}]", config.vocab, config.hidden);
    case Operation::kRmsNorm:
      return fmt::format("[{}]", config.hidden);
    case Operation::kQkv:
      return fmt::format("[{}, {}]", q_rows + 2 * kv_rows, config.hidden);
    case Operation::kAppend:
      return fmt::format("[{}, {}]", config.num_kv_heads, config.head_dim);
    case Operation::kAttend:
      return fmt::format("[{}, {}] over [{}, {}]", config.num_heads, config.head_dim, config.num_kv_heads,
                         config.head_dim);
    case Operation::kProject:
      return fmt::format("[{}, {}]", config.hidden, q_rows);
    case Operation::kRoute:
      return fmt::format("[{}, {}]", config.num_experts, config.hidden);
    case Operation::kExpertsUp:
      return fmt::format("[{}, {}, {}]", config.num_experts, 2 * config.intermediate, config.hidden);
    case Operation::kExpertsDown:
      return fmt::format("[{}, {}, {}]", config.num_experts, config.hidden, config.intermediate);
    case Operation::kSample:
      return fmt::format("[{}]", config.vocab);
  }
  return {};
}

std::string rows_text(const KernelChoice& row) {
  if (row.from_rows == row.to_rows) return fmt::to_string(row.from_rows);
  if (row.to_rows < kAnyRows) return fmt::format("{}-{}", row.from_rows, row.to_rows);
  return row.from_rows > 1 ? fmt::format("{}-", row.from_rows) : "any";
}

std::string kernel_text(const KernelChoice& row, const Config& config) {
  return fmt::format("{} {}: {}, activations {}, rows {}: {} ({})", name(row.operation),
                     shape_text(row.operation, config), weights_text(row), with_scales(row.activations),
                     rows_text(row), row.kernel, row.reason);
}

void log_kernels(const Backend& backend, std::string_view model) {
  log::info("kernels of {} on backend {}:", model, backend.name());
  for (const KernelChoice& row : backend.kernels()) log::info("{}", kernel_text(row, backend.config()));
}

}  // namespace nibble
