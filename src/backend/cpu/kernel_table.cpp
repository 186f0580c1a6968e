// Rows only; nothing here launches.
#include "backend/cpu/kernel_table.h"

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"

namespace nibble::cpu {
namespace {

constexpr const char* kMeasured{"records/cpu-kernels.jsonl"};
constexpr const char* kFallback{"right everywhere, tuned nowhere"};
constexpr const char* kOnly{"the only one of its instruction set"};

// The first row whose instruction set is the one chosen wins.
// clang-format off
constexpr DotRow kDotRows[]{
    // isa            weights         kernel                 name                   reason
#if NIBBLE_X86
    {Isa::kAvx512,    Format::kBf16,  &avx512::dot_bf16,     "avx512::dot_bf16",    kMeasured},
    {Isa::kAvx512,    Format::kMxfp4, &avx512::dot_mxfp4,    "avx512::dot_mxfp4",   kMeasured},
    {Isa::kAvx2,      Format::kBf16,  &avx2::dot_bf16,       "avx2::dot_bf16",      kMeasured},
    {Isa::kAvx2,      Format::kMxfp4, &avx2::dot_mxfp4,      "avx2::dot_mxfp4",     kMeasured},
#endif
    {Isa::kPortable,  Format::kBf16,  &portable::dot_bf16,   "portable::dot_bf16",  kFallback},
    {Isa::kPortable,  Format::kMxfp4, &portable::dot_mxfp4,  "portable::dot_mxfp4", kFallback},
};

constexpr WeighRow kWeighRows[]{
#if NIBBLE_X86
    {Isa::kAvx512,    &avx512::weigh_bf16,   "avx512::weigh_bf16",   kOnly},
    {Isa::kAvx2,      &avx2::weigh_bf16,     "avx2::weigh_bf16",     kOnly},
#endif
    {Isa::kPortable,  &portable::weigh_bf16, "portable::weigh_bf16", kFallback},
};
// clang-format on

const DotRow* first_dot(Isa isa, Format weights) {
  for (const DotRow& row : kDotRows)
    if (row.isa == isa && row.weights == weights) return &row;
  NIBBLE_CHECK(false, "no dot of {} weights for {}", nibble::name(weights), name(isa));
}

const WeighRow* first_weigh(Isa isa) {
  for (const WeighRow& row : kWeighRows)
    if (row.isa == isa) return &row;
  NIBBLE_CHECK(false, "no weigh for {}", name(isa));
}

constexpr Isa kIsas[]{Isa::kAvx512, Isa::kAvx2, Isa::kPortable};  // best first

std::string available_names() {
  std::string names;
  for (const Isa isa : kIsas)
    if (is_available(isa)) names += fmt::format("{}{}", names.empty() ? "" : ", ", name(isa));
  return names;
}

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  NIBBLE_CHECK(false, "isa {}", static_cast<int>(isa));
}

bool is_available(Isa isa) {
#if NIBBLE_X86  // the builtins ask the processor and the operating system, which must save the wide registers
  if (isa == Isa::kAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::kAvx512) return __builtin_cpu_supports("avx512f");
#endif
  return isa == Isa::kPortable;
}

Isa isa_of(std::string_view option) {
  for (const Isa isa : kIsas)
    if (is_available(isa) && (option.empty() || option == name(isa))) return isa;
  throw InputError(
      "instruction set '{}' is not one that this machine has: choose of {}, or leave it out for the first",
      option, available_names());
}

std::span<const DotRow> dot_rows() { return kDotRows; }
std::span<const WeighRow> weigh_rows() { return kWeighRows; }

const DotRow* Kernels::dot(Format weights) const {
  return weights == Format::kBf16 ? dot_bf16 : weights == Format::kMxfp4 ? dot_mxfp4 : nullptr;
}

Kernels choose_kernels(Isa isa) {
  return {first_dot(isa, Format::kBf16), first_dot(isa, Format::kMxfp4), first_weigh(isa)};
}

}  // namespace nibble::cpu
