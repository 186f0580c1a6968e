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

enum class Isa { kPortable, kAvx2, kAvx512 };  // ascending: what has one has those before it
std::string_view name(Isa isa);
bool is_available(Isa isa);  // on the machine this runs on
// An option's name; empty: the widest this machine has. Throws InputError: unknown, or not of this machine.
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
  bool needs_vnni;  // beside it
  Format format;    // of the weights
  int strip_rows;
  StripKernel kernel;
  const char* name;
  const char* reason;
};
bool is_available(const StripRow& row);
std::span<const StripRow> strip_rows();
std::span<const DotRow> dot_rows();
std::span<const WeighRow> weigh_rows();

inline constexpr size_t kNumFormats{static_cast<size_t>(Format::kQ8_0) + 1};  // it is the last

// The first rows that fit an instruction set; null: no row takes this format.
struct Kernels {
  std::array<const DotRow*, kNumFormats> dots{};
  std::array<const WeighRow*, kNumFormats> weighs{};
  // The first that this machine has of this instruction set or of one before it: of MXFP4 and Q8_0.
  std::array<const StripRow*, kNumFormats> strips{};

  const DotRow* dot(Format weights) const { return dots[static_cast<size_t>(weights)]; }
  const StripRow* strip(Format weights) const { return strips[static_cast<size_t>(weights)]; }
  const WeighRow* weigh(Format values) const { return weighs[static_cast<size_t>(values)]; }
};
Kernels choose_kernels(Isa isa);

}  // namespace nibble::cpu
