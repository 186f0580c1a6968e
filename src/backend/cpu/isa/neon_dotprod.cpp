// NEON with the dot product extension. Arm's cores have it since Neoverse N1 and Cortex-A76, Apple's since
// A11.
#include "backend/cpu/isa/kernels.h"

#if NIBBLE_AARCH64
#include "backend/cpu/isa/neon_dotprod.h"

namespace nibble::cpu::neon_dotprod {
void strip_mxfp4(const StripArgs& args) { strips<Dotprod<NeonMxfp4>>(args); }
void strip_q8_0(const StripArgs& args) { strips<Dotprod<NeonQ8_0>>(args); }
}  // namespace nibble::cpu::neon_dotprod
#endif
