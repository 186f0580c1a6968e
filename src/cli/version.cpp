#include "cli/version.h"

#include <fmt/format.h>

#include "backend/cpu/kernel_table.h"
#include "setup/backend/backends.h"
#include "setup/commit.h"

namespace nibble::cli {

Build this_build() { return {kVersion, kCommit, kBuild, kCompiler, kBuildName}; }

Json build_json() {
  // Suffix that `git describe` adds if the tree has uncommitted changes.
  constexpr std::string_view kDirty{"-dirty"};
  const Build build = this_build();
  const bool is_known = build.commit != "unknown", is_dirty = build.commit.ends_with(kDirty);
  return {{"version", build.version},
          {"commit", build.commit.substr(0, build.commit.size() - (is_dirty ? kDirty.size() : 0))},
          {"dirty", is_known ? Json(is_dirty) : Json()},
          {"build", build.kind},
          {"compiler", build.compiler}};
}

std::string version_text() {
  std::string built, available, backends;
  for (const cpu::IsaRow& row : cpu::isa_rows()) {
    built += fmt::format(" {}", row.name);
    if (row.is_available()) available += fmt::format(" {}", row.name);
  }
  for (const BackendRow& row : all_backends()) backends += fmt::format("  {:<10} {}\n", row.name, row.what);
  const Build build = this_build();
  const std::string code = device_code(), code_line = code.empty() ? "" : fmt::format("{}\n", code);
  return fmt::format(
      "nibble {}, commit {}\nbuild: {}, {}\ninstruction sets built:{}; this machine has:{}\n{}backends:\n{}",
      build.version, build.commit, build.kind, build.compiler, built, available, code_line, backends);
}

}  // namespace nibble::cli
