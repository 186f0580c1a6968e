// Handling of allocations that fail.
#pragma once

namespace nibble {

// Sets the process's new-handler. While an exception unwinds the stack, a failing allocation waits for
// memory; otherwise it throws std::bad_alloc. Some destructors allocate (Asio's coroutines post the
// destruction of their frames), and a second exception during unwinding would end the process.
void wait_for_memory_while_unwinding();

// While one exists, allocations of its thread wait for memory instead of throwing. For destructors that
// allocate, and for threads that must not end. Has an effect after wait_for_memory_while_unwinding().
class WaitForMemory {
 public:
  WaitForMemory();
  ~WaitForMemory();
  WaitForMemory(const WaitForMemory&) = delete;
  WaitForMemory& operator=(const WaitForMemory&) = delete;
};

}  // namespace nibble
