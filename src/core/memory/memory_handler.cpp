#include "core/memory/memory_handler.h"

#include <chrono>
#include <exception>
#include <new>
#include <thread>

namespace nibble {
namespace {

thread_local int num_waits{0};  // objects WaitForMemory of this thread

void wait_or_throw() {
  if (num_waits == 0 && std::uncaught_exceptions() == 0) throw std::bad_alloc();
  std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace

void wait_for_memory_while_unwinding() { std::set_new_handler(&wait_or_throw); }

WaitForMemory::WaitForMemory() { ++num_waits; }
WaitForMemory::~WaitForMemory() { --num_waits; }

}  // namespace nibble
