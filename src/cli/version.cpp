#include "cli/version.h"

#include <fmt/format.h>

#include "backend/cpu/kernel_table.h"
#include "cli/backends.h"
#include "cli/commit.h"

namespace nibble::cli {

Build this_build() { return {kVersion, kCommit, kBuild, kCompiler}; }

std::string version_text() {
  std::string built, available, backends;
  for (const cpu::Isa isa : {cpu::Isa::kPortable, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    built += fmt::format(" {}", cpu::name(isa));
    if (cpu::is_available(isa)) available += fmt::format(" {}", cpu::name(isa));
  }
  for (const BackendRow& row : all_backends()) backends += fmt::format("  {:<10} {}\n", row.name, row.what);
  const Build build = this_build();
  return fmt::format(
      "nibble {}, commit {}\nbuild: {}, {}\ninstruction sets built:{}; this machine has:{}\nbackends:\n{}",
      build.version, build.commit, build.kind, build.compiler, built, available, backends);
}

}  // namespace nibble::cli
