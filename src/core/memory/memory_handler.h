// Sets the process's new-handler. While an exception unwinds the stack, a failing allocation waits for
// memory; otherwise it throws std::bad_alloc. Some destructors allocate (Asio's coroutines post the
// destruction of their frames), and a second exception during unwinding would end the process.
#pragma once

namespace nibble {

void wait_for_memory_while_unwinding();

}  // namespace nibble
