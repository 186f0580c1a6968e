#include "tests/memory/failing_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

namespace nibble::test {
namespace {

std::atomic<bool> is_counting{false}, is_failed{false};
std::atomic<int64_t> num_allocated{0}, first_to_fail{0}, num_to_fail{0};
std::atomic<size_t> min_bytes_to_fail{0};
thread_local bool is_spared{false};

bool is_to_fail(size_t bytes) {
  if (!is_counting.load(std::memory_order_relaxed) || is_spared || bytes < min_bytes_to_fail) return false;
  const int64_t first = first_to_fail, n = ++num_allocated;
  if (first == 0 || n < first || n - first >= num_to_fail) return false;
  is_failed = true;
  return true;
}

void* allocate(size_t bytes, size_t alignment) {
  for (;;) {
    void* memory = nullptr;
    if (!is_to_fail(bytes) &&
        ::posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes > 0 ? bytes : 1) == 0)
      return memory;
    const std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

FailingMemory::FailingMemory(const Failures& failures) {
  is_failed = false;
  num_allocated = 0;
  first_to_fail = failures.first;
  num_to_fail = failures.number;
  min_bytes_to_fail = failures.min_bytes;
  is_counting = true;
}
FailingMemory::~FailingMemory() { is_counting = false; }
int64_t FailingMemory::num_allocations() const { return num_allocated; }
bool FailingMemory::has_failed() const { return is_failed; }

void spare_this_thread() { is_spared = true; }

TEST(FailingMemory, FailsOnceAtTheKthAllocationOfAnyThreadThatIsNotSpared) {
  spare_this_thread();
  int num_done = 0;
  bool has_thrown = false;
  const FailingMemory memory(3);
  std::thread([&] {
    for (int n = 0; n < 5; ++n) try {
        ::operator delete(::operator new(1));
        ++num_done;
      } catch (const std::bad_alloc&) {
        has_thrown = n == 2;
      }
  }).join();
  EXPECT_TRUE(has_thrown && memory.has_failed());
  EXPECT_EQ(num_done, 4);
}

TEST(FailingMemory, FailsForLargeAllocationsOnly) {
  spare_this_thread();
  int num_failed = 0;
  const FailingMemory memory({.first = 1, .number = Failures::kAll, .min_bytes = 1000});
  std::thread([&] {
    for (const size_t bytes : {999, 1000, 10, 5000}) try {
        ::operator delete(::operator new(bytes));
      } catch (const std::bad_alloc&) {
        ++num_failed;
      }
  }).join();
  EXPECT_EQ(num_failed, 2);
  EXPECT_EQ(memory.num_allocations(), 2);
}

}  // namespace nibble::test

void* operator new(size_t bytes) { return nibble::test::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return nibble::test::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
