#include "backend/cpu/kernel_table.h"

#include <fmt/format.h>

#if NIBBLE_X86
#include <cpuid.h>
#endif
#if NIBBLE_AARCH64
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if NIBBLE_X86
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#include <iterator>

#include "core/errors/error.h"

namespace nibble::cpu {
namespace {

#if NIBBLE_X86
constexpr const char* kMeasured{"records/cpu-kernels.jsonl"};
constexpr const char* kMeasuredInt8{"records/cpu-int8.jsonl"};
constexpr const char* kOnly{"the only one of its instruction set"};
#endif
constexpr const char* kFallback{"right everywhere, tuned nowhere"};
#if NIBBLE_AARCH64
constexpr const char* kEmulated{"right under emulation, measured nowhere"};
#endif

// On x86, __builtin_cpu_supports() also checks that the operating system saves the wide registers.
#if NIBBLE_X86
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx_vnni() {  // reads CPUID (leaf 7, subleaf 1): clang 14's builtin does not know this name
  unsigned eax{}, ebx{}, ecx{}, edx{};
  return has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1);
}
bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
bool has_avx512_vnni() { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"); }
// Returns whether AMX int8, and the AVX-512 subsets that the AMX kernels use, are available. Linux grants
// tiles (8 KB per thread) only on request.
bool has_amx() {
  static const bool has = [] {
    unsigned eax, ebx, ecx, edx;
    constexpr unsigned kTile{1u << 24}, kInt8{1u << 25};
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & (kTile | kInt8)) != (kTile | kInt8))
      return false;
    if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512bw")) return false;
#if defined(__linux__)
    constexpr long kRequestPermission{0x1023}, kTileData{18};  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
    return false;
#endif
  }();
  return has;
}
#endif
#if NIBBLE_AARCH64
bool has_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_i8mm() { return has_dotprod() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM); }
#endif
bool always() { return true; }

// clang-format off
constexpr IsaRow kIsas[]{
    {Isa::kPortable,    "portable",     &always},
#if NIBBLE_X86
    {Isa::kAvx2,        "avx2",         &has_avx2},
    {Isa::kAvxVnni,     "avx_vnni",     &has_avx_vnni},
    {Isa::kAvx512,      "avx512",       &has_avx512},
    {Isa::kAvx512Vnni,  "avx512_vnni",  &has_avx512_vnni},
    {Isa::kAmx,         "amx",          &has_amx},
#endif
#if NIBBLE_AARCH64
    {Isa::kNeon,        "neon",         &always},
    {Isa::kNeonDotprod, "neon_dotprod", &has_dotprod},
    {Isa::kNeonI8mm,    "neon_i8mm",    &has_i8mm},
#endif
};

// The best rows come first. For each format, the first row is used that the machine supports and that the
// requested instruction set allows.
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
#if NIBBLE_AARCH64
    {Isa::kNeon,      Format::kBf16,  &neon::dot_bf16,       "neon::dot_bf16",      kEmulated},
    {Isa::kNeon,      Format::kE4m3,  &neon::dot_e4m3,       "neon::dot_e4m3",      kEmulated},
    {Isa::kNeon,      Format::kMxfp4, &neon::dot_mxfp4,      "neon::dot_mxfp4",     kEmulated},
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
#if NIBBLE_AARCH64
    {Isa::kNeon,      Format::kBf16,  &neon::weigh_bf16,     "neon::weigh_bf16",     kEmulated},
    {Isa::kNeon,      Format::kE4m3,  &neon::weigh_e4m3,     "neon::weigh_e4m3",     kEmulated},
#endif
    {Isa::kPortable,  Format::kBf16,  &portable::weigh_bf16, "portable::weigh_bf16", kFallback},
    {Isa::kPortable,  Format::kE4m3,  &portable::weigh_e4m3, "portable::weigh_e4m3", kFallback},
};

constexpr StripRow kStripRows[]{
    // isa               weights         rows  from  kernel                       name               reason
#if NIBBLE_X86
    {Isa::kAmx,          Format::kMxfp4, 16,   16,   &amx::strip_mxfp4,           "amx::strip_mxfp4",          kMeasuredInt8},
    {Isa::kAmx,          Format::kQ8_0,  16,   16,   &amx::strip_q8_0,            "amx::strip_q8_0",           kMeasuredInt8},
    {Isa::kAvx512Vnni,   Format::kMxfp4, 16,   1,    &avx512_vnni::strip_mxfp4,   "avx512_vnni::strip_mxfp4",  kMeasuredInt8},
    {Isa::kAvx512Vnni,   Format::kQ8_0,  16,   1,    &avx512_vnni::strip_q8_0,    "avx512_vnni::strip_q8_0",   kMeasuredInt8},
    {Isa::kAvxVnni,      Format::kMxfp4, 8,    1,    &avx_vnni::strip_mxfp4,      "avx_vnni::strip_mxfp4",     kMeasuredInt8},
    {Isa::kAvxVnni,      Format::kQ8_0,  8,    1,    &avx_vnni::strip_q8_0,       "avx_vnni::strip_q8_0",      kMeasuredInt8},
    {Isa::kAvx2,         Format::kMxfp4, 8,    1,    &avx2::strip_mxfp4,          "avx2::strip_mxfp4",         kMeasuredInt8},
    {Isa::kAvx2,         Format::kQ8_0,  8,    1,    &avx2::strip_q8_0,           "avx2::strip_q8_0",          kMeasuredInt8},
#endif
#if NIBBLE_AARCH64
    {Isa::kNeonI8mm,     Format::kMxfp4, 4,    1,    &neon_i8mm::strip_mxfp4,      "neon_i8mm::strip_mxfp4",    kEmulated},
    {Isa::kNeonI8mm,     Format::kQ8_0,  4,    1,    &neon_i8mm::strip_q8_0,       "neon_i8mm::strip_q8_0",     kEmulated},
    {Isa::kNeonDotprod,  Format::kMxfp4, 4,    1,    &neon_dotprod::strip_mxfp4,   "neon_dotprod::strip_mxfp4", kEmulated},
    {Isa::kNeonDotprod,  Format::kQ8_0,  4,    1,    &neon_dotprod::strip_q8_0,    "neon_dotprod::strip_q8_0",  kEmulated},
    {Isa::kNeon,         Format::kMxfp4, 4,    1,    &neon::strip_mxfp4,           "neon::strip_mxfp4",         kEmulated},
    {Isa::kNeon,         Format::kQ8_0,  4,    1,    &neon::strip_q8_0,            "neon::strip_q8_0",          kEmulated},
#endif
    {Isa::kPortable,     Format::kMxfp4, 4,    1,    &portable::strip_mxfp4,      "portable::strip_mxfp4",     kFallback},
    {Isa::kPortable,     Format::kQ8_0,  4,    1,    &portable::strip_q8_0,       "portable::strip_q8_0",      kFallback},
};
// clang-format on

template <typename Row>
void choose(std::span<const Row> rows, Isa isa, std::array<const Row*, kNumFormats>& chosen) {
  for (const Row& row : rows) {
    const Row*& place = chosen[static_cast<size_t>(row.format)];
    if (!place && row.isa <= isa && is_available(row.isa)) place = &row;
  }
}

}  // namespace

std::span<const IsaRow> isa_rows() { return kIsas; }

std::string_view name(Isa isa) {
  for (const IsaRow& row : kIsas)
    if (row.isa == isa) return row.name;
  return "of another architecture";
}

bool is_available(Isa isa) {
  for (const IsaRow& row : kIsas)
    if (row.isa == isa) return row.is_available();
  return false;
}

Isa isa_of(std::string_view option) {
  std::string names;
  for (auto row = std::rbegin(kIsas); row != std::rend(kIsas); ++row) {
    if (!row->is_available()) continue;
    if (option.empty() || option == row->name) return row->isa;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row->name);
  }
  throw InputError(
      "instruction set '{}' is not one that this machine has: choose of {}, or leave it out for the first",
      option, names);
}

std::span<const StripRow> strip_rows() { return kStripRows; }
std::span<const DotRow> dot_rows() { return kDotRows; }
std::span<const WeighRow> weigh_rows() { return kWeighRows; }

Kernels choose_kernels(Isa isa, int tile_from_tokens) {
  Kernels kernels;
  choose(dot_rows(), isa, kernels.dots);
  choose(weigh_rows(), isa, kernels.weighs);
  for (const StripRow& row : strip_rows()) {
    if (row.isa > isa || !is_available(row.isa)) continue;
    auto& [of_one, of_many, many] = kernels.strips[static_cast<size_t>(row.format)];
    if (!of_many) {
      of_many = &row;
      many = row.from_tokens > 1 && tile_from_tokens > 0 ? tile_from_tokens : row.from_tokens;
    }
    if (!of_one && row.from_tokens == 1) of_one = &row;
  }
  return kernels;
}

}  // namespace nibble::cpu
