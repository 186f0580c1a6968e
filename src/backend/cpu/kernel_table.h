// The table of CPU kernels. A CPU backend chooses its kernels when it is created and when it is retuned.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "backend/cpu/isa/kernels.h"
#include "model/weights.h"

namespace nibble::cpu {

// Instruction sets by architecture, slowest first. A machine uses the kernels of the last set that it
// supports. If that set lacks a kernel, an earlier set's kernel is used.
enum class Isa { kPortable, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAmx, kNeon, kNeonDotprod, kNeonI8mm };

struct IsaRow {
  Isa isa;
  std::string_view name;
  bool (*is_available)();
};
std::span<const IsaRow> isa_rows();  // returns the sets of this build's architecture, slowest first
std::string_view name(Isa isa);
bool is_available(Isa isa);
// Returns the instruction set that `option` names; if `option` is empty, this machine's best set. Throws
// InputError if the name is unknown or if the machine does not support the set.
Isa isa_of(std::string_view option);

template <typename Kernel>
struct FloatRow {
  Isa isa;
  Format format;  // format of the weights (DotRow) or values (WeighRow)
  Kernel* kernel;
  const char* name;
  const char* reason;
};
using DotRow = FloatRow<DotKernel>;
using WeighRow = FloatRow<WeighKernel>;
// A kernel for int8 activations and weights in strips. strip_rows is a property of the instruction set.
struct StripRow {
  Isa isa;
  Format format;  // format of the weights
  int strip_rows;
  // From this number of tokens per panel on, this row is the fastest.
  int from_tokens;
  StripKernel* kernel;
  const char* name;
  const char* reason;
};
std::span<const StripRow> strip_rows();
std::span<const DotRow> dot_rows();
std::span<const WeighRow> weigh_rows();

inline constexpr size_t kNumFormats{static_cast<size_t>(Format::kQ8_0) + 1};  // kQ8_0 is the last format

// The kernels of a backend. For each weight format, the kernel is that of the table's first row that the
// machine supports and whose instruction set is not above the chosen one. Null: no such row exists.
struct Kernels {
  std::array<const DotRow*, kNumFormats> dots{};
  std::array<const WeighRow*, kNumFormats> weighs{};
  struct Strips {
    const StripRow *of_one{nullptr}, *of_many{nullptr};  // kernels for few and for many tokens; may be equal
    int many{1};                                         // number of tokens from which of_many is used
  };
  std::array<Strips, kNumFormats> strips{};  // set for MXFP4 and Q8_0

  const DotRow* dot(Format weights) const { return dots[static_cast<size_t>(weights)]; }
  const Strips& both_strips(Format weights) const { return strips[static_cast<size_t>(weights)]; }
  const StripRow* strip(Format weights, int num_tokens = 1) const {
    const Strips& rows = both_strips(weights);
    return num_tokens >= rows.many ? rows.of_many : rows.of_one;
  }
  const WeighRow* weigh(Format values) const { return weighs[static_cast<size_t>(values)]; }
};
// Returns the kernels for this machine and `isa`. If tile_from_tokens is above 0, it replaces from_tokens in
// all table rows whose from_tokens is above 1.
Kernels choose_kernels(Isa isa, int tile_from_tokens = 0);

}  // namespace nibble::cpu
