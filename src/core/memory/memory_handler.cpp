#include "core/memory/memory_handler.h"

#include <chrono>
#include <exception>
#include <new>
#include <thread>

namespace nibble {
namespace {

void wait_or_throw() {
  if (std::uncaught_exceptions() == 0) throw std::bad_alloc();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

void wait_for_memory_while_unwinding() { std::set_new_handler(&wait_or_throw); }

}  // namespace nibble
