// Which kernel runs a loop on this machine: rows of plain data, chosen once when a backend is made.
#pragma once

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
  Format weights;
  DotKernel kernel;
  const char* name;
  const char* reason;
};
struct WeighRow {
  Isa isa;
  WeighKernel kernel;
  const char* name;
  const char* reason;
};
std::span<const DotRow> dot_rows();
std::span<const WeighRow> weigh_rows();

// The first rows that fit an instruction set.
struct Kernels {
  const DotRow* dot_bf16;
  const DotRow* dot_mxfp4;
  const WeighRow* weigh;

  const DotRow* dot(Format weights) const;  // null: no row takes this format
};
Kernels choose_kernels(Isa isa);

}  // namespace nibble::cpu
