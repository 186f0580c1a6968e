#include "tests/memory/failing_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

namespace nibble::test {
namespace {

std::atomic<bool> is_counting{false}, is_failed{false};
std::atomic<int64_t> num_allocated{0}, failing{0};
thread_local bool is_spared{false};

bool is_to_fail() {
  if (!is_counting.load(std::memory_order_relaxed) || is_spared) return false;
  if (++num_allocated != failing) return false;
  is_failed = true;
  return true;
}

void* allocate(size_t bytes, size_t alignment) {
  if (is_to_fail()) throw std::bad_alloc();
  void* memory = nullptr;
  if (::posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes > 0 ? bytes : 1) != 0)
    throw std::bad_alloc();
  return memory;
}

}  // namespace

FailingMemory::FailingMemory(int64_t k) {
  is_failed = false;
  num_allocated = 0;
  failing = k;
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

}  // namespace nibble::test

void* operator new(size_t bytes) { return nibble::test::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return nibble::test::allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

#if !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)  // sanitizers, which builds with clang have, bring their own
extern "C" void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (nibble::test::is_to_fail()) return nullptr;
  void* memory = nullptr;
  errno = ::posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes);
  return errno == 0 ? memory : nullptr;
}
#endif
