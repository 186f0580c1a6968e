// Which kernel runs a loop on this machine: rows of plain data, chosen once when a backend is made.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/isa/kernels.h"
#include "model/weights.h"

namespace nibble::cpu {

// Ascending: of those that a machine has the last is the best, and it may use the rows of those before it.
enum class Isa { kPortable, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAmx, kNeon, kNeonDotprod, kNeonI8mm };

struct IsaRow {
  Isa isa;
  std::string_view name;
  bool (*is_available)();  // on the machine this runs on
};
std::span<const IsaRow> isa_rows();  // of the architecture that this was built for, ascending
std::string_view name(Isa isa);
bool is_available(Isa isa);
// An option's name; empty: the best that this machine has. Throws InputError: unknown, or not of this machine.
Isa isa_of(std::string_view option);

struct DotRow {
  Isa isa;
  Format format;  // of the weights
  DotKernel kernel;
  const char* name;
  const char* reason;
};
struct WeighRow {
  Isa isa;
  Format format;  // of the values
  WeighKernel kernel;
  const char* name;
  const char* reason;
};
// Of weights in strips and activations in int8 (isa/kernels.h). The rows of one instruction set agree in strip_rows.
struct StripRow {
  Isa isa;
  Format format;  // of the weights
  int strip_rows;
  int from_tokens;  // that share a panel: with fewer another row is faster, and gives the same bits
  StripKernel kernel;
  const char* name;
  const char* reason;
};
std::span<const StripRow> strip_rows();
std::span<const DotRow> dot_rows();
std::span<const WeighRow> weigh_rows();

inline constexpr size_t kNumFormats{static_cast<size_t>(Format::kQ8_0) + 1};  // it is the last

// The first rows that this machine has of an instruction set or of one before it; null: no row takes this format.
struct Kernels {
  std::array<const DotRow*, kNumFormats> dots{};
  std::array<const WeighRow*, kNumFormats> weighs{};
  struct Strips {
    const StripRow *of_one{nullptr}, *of_many{nullptr};  // perhaps the same
    int many{1};                                         // tokens from which on of_many runs
  };
  std::array<Strips, kNumFormats> strips{};  // of MXFP4 and Q8_0

  const DotRow* dot(Format weights) const { return dots[static_cast<size_t>(weights)]; }
  const Strips& both_strips(Format weights) const { return strips[static_cast<size_t>(weights)]; }
  const StripRow* strip(Format weights, int num_tokens = 1) const {
    const Strips& rows = both_strips(weights);
    return num_tokens >= rows.many ? rows.of_many : rows.of_one;
  }
  const WeighRow* weigh(Format values) const { return weighs[static_cast<size_t>(values)]; }
};
// With tile_from_tokens in place of the rows' own from_tokens, but for 0 (cpu_tuning.h).
Kernels choose_kernels(Isa isa, int tile_from_tokens = 0);

}  // namespace nibble::cpu
