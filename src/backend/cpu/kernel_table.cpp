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
    {Isa::kAvx512,    Format::kE4m3,  &avx512::dot_e4m3,     "avx512::dot_e4m3",    kMeasured},
    {Isa::kAvx512,    Format::kMxfp4, &avx512::dot_mxfp4,    "avx512::dot_mxfp4",   kMeasured},
    {Isa::kAvx2,      Format::kBf16,  &avx2::dot_bf16,       "avx2::dot_bf16",      kMeasured},
    {Isa::kAvx2,      Format::kE4m3,  &avx2::dot_e4m3,       "avx2::dot_e4m3",      kMeasured},
    {Isa::kAvx2,      Format::kMxfp4, &avx2::dot_mxfp4,      "avx2::dot_mxfp4",     kMeasured},
#endif
    {Isa::kPortable,  Format::kBf16,  &portable::dot_bf16,   "portable::dot_bf16",  kFallback},
    {Isa::kPortable,  Format::kE4m3,  &portable::dot_e4m3,   "portable::dot_e4m3",  kFallback},
    {Isa::kPortable,  Format::kMxfp4, &portable::dot_mxfp4,  "portable::dot_mxfp4", kFallback},
};

constexpr WeighRow kWeighRows[]{
    // isa            values          kernel                 name                    reason
#if NIBBLE_X86
    {Isa::kAvx512,    Format::kBf16,  &avx512::weigh_bf16,   "avx512::weigh_bf16",   kOnly},
    {Isa::kAvx512,    Format::kE4m3,  &avx512::weigh_e4m3,   "avx512::weigh_e4m3",   kOnly},
    {Isa::kAvx2,      Format::kBf16,  &avx2::weigh_bf16,     "avx2::weigh_bf16",     kOnly},
    {Isa::kAvx2,      Format::kE4m3,  &avx2::weigh_e4m3,     "avx2::weigh_e4m3",     kOnly},
#endif
    {Isa::kPortable,  Format::kBf16,  &portable::weigh_bf16, "portable::weigh_bf16", kFallback},
    {Isa::kPortable,  Format::kE4m3,  &portable::weigh_e4m3, "portable::weigh_e4m3", kFallback},
};

constexpr StripRow kStripRows[]{
    // isa            VNNI   weights         rows  kernel                        name                         reason
#if NIBBLE_X86
    {Isa::kAvx512,    true,  Format::kMxfp4, 16,   &avx512_vnni::strip_mxfp4,    "avx512_vnni::strip_mxfp4",  kMeasured},
    {Isa::kAvx512,    true,  Format::kQ8_0,  16,   &avx512_vnni::strip_q8_0,     "avx512_vnni::strip_q8_0",   kMeasured},
    {Isa::kAvx2,      false, Format::kMxfp4, 8,    &avx2::strip_mxfp4,           "avx2::strip_mxfp4",         kMeasured},
    {Isa::kAvx2,      false, Format::kQ8_0,  8,    &avx2::strip_q8_0,            "avx2::strip_q8_0",          kMeasured},
#endif
    {Isa::kPortable,  false, Format::kMxfp4, 4,    &portable::strip_mxfp4,       "portable::strip_mxfp4",     kFallback},
    {Isa::kPortable,  false, Format::kQ8_0,  4,    &portable::strip_q8_0,        "portable::strip_q8_0",      kFallback},
};
// clang-format on

template <typename Row>
void choose(std::span<const Row> rows, Isa isa, std::array<const Row*, kNumFormats>& chosen) {
  for (const Row& row : rows) {
    const Row*& place = chosen[static_cast<size_t>(row.format)];
    if (row.isa == isa && !place) place = &row;
  }
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

bool is_available(const StripRow& row) {
#if NIBBLE_X86
  if (row.needs_vnni && !(__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw")))
    return false;
#endif
  return is_available(row.isa);
}

std::span<const StripRow> strip_rows() { return kStripRows; }
std::span<const DotRow> dot_rows() { return kDotRows; }
std::span<const WeighRow> weigh_rows() { return kWeighRows; }

Kernels choose_kernels(Isa isa) {
  Kernels kernels;
  choose(dot_rows(), isa, kernels.dots);
  choose(weigh_rows(), isa, kernels.weighs);
  for (const StripRow& row : strip_rows()) {
    const StripRow*& place = kernels.strips[static_cast<size_t>(row.format)];
    if (!place && row.isa <= isa && is_available(row)) place = &row;
  }
  return kernels;
}

}  // namespace nibble::cpu
