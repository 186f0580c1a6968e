// Makes the k-th allocation of this program fail, counted over all threads that are not spared. Replaces
// operator new and aligned_alloc(), which Asio uses. failing_memory_test.cpp has the definitions.
#pragma once

#include <cstdint>

namespace nibble::test {

// Makes the k-th allocation from now on fail, during this object's lifetime. With 0 none fails, but all are
// counted.
class FailingMemory {
 public:
  explicit FailingMemory(int64_t k);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  int64_t num_allocations() const;  // so far
  bool has_failed() const;
};

// From now on, no allocation of the calling thread counts or fails.
void spare_this_thread();

}  // namespace nibble::test
