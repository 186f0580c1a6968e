#include "backend/changed_files.h"

#include <fmt/format.h>

#include "backend/backend.h"

namespace nibble {

void check_unchanged(const MappedFiles& files) {
  for (const auto& file : files)
    if (file->has_changed())
      throw BackendLost(fmt::format(
          "{} was changed after it was opened, and its weights are read where it is mapped: start again",
          file->path().string()));
}

}  // namespace nibble
