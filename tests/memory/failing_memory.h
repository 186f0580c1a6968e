// Lets an allocation of this program fail: the k-th of all threads but those that are spared. Replaces operator new, and aligned_alloc(), by
// which Asio takes memory. failing_memory_test.cpp has the definitions.
#pragma once

#include <cstdint>

namespace nibble::test {

// Lets the k-th allocation from now on fail, for as long as this lives. 0: none, but they are counted.
class FailingMemory {
 public:
  explicit FailingMemory(int64_t k);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  int64_t num_allocations() const;  // so far
  bool has_failed() const;
};

// No allocation of the calling thread counts or fails from now on.
void spare_this_thread();

}  // namespace nibble::test
