// Makes allocations of this program fail, in all threads that are not spared. Replaces operator new.
// failing_memory_test.cpp has the definitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace nibble::test {

// The allocations that fail. Allocations are counted from 1; those below `min_bytes` neither count nor fail.
struct Failures {
  int64_t first{0};  // 0: no allocation fails, but all are counted
  int64_t number{1};
  size_t min_bytes{0};
  static constexpr int64_t kAll{std::numeric_limits<int64_t>::max()};
};

// Makes allocations fail while this object exists.
class FailingMemory {
 public:
  explicit FailingMemory(const Failures& failures);
  explicit FailingMemory(int64_t k) : FailingMemory(Failures{.first = k}) {}
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  int64_t num_allocations() const;  // allocations so far
  bool has_failed() const;
};

// From now on, no allocation of the calling thread counts or fails.
void spare_this_thread();

}  // namespace nibble::test
