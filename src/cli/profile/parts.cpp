#include "cli/profile/parts.h"

#include <algorithm>

#include "core/errors/check.h"

namespace nibble::cli {

size_t part_of(Operation operation) {
  switch (operation) {
    case Operation::kQkv:
    case Operation::kProject:
      return 0;
    case Operation::kExpertsUp:
    case Operation::kExpertsDown:
      return 1;
    case Operation::kAppend:
    case Operation::kAttend:
      return 2;
    case Operation::kEmbed:
    case Operation::kRmsNorm:
    case Operation::kRoute:
      return 3;
    case Operation::kUnembed:
    case Operation::kSample:
      return 4;
  }
  NIBBLE_CHECK(false, "operation {}", static_cast<int>(operation));
}

size_t part_of(const TimedWork& work) { return work.is_draft ? kDraftPart : part_of(work.operation); }

std::vector<OwnTime> own_times(std::span<const TimedWork> step) {
  std::vector<OwnTime> times;
  double end = step.empty() ? 0 : step.front().begin;
  for (const TimedWork& work : step) {
    times.push_back({.idle = std::max(0.0, work.begin - end),
                     .busy = std::max(0.0, work.end - std::max(work.begin, end))});
    end = std::max(end, work.end);
  }
  return times;
}

}  // namespace nibble::cli
