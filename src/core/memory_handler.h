// Sets the process's new-handler: while an exception unwinds the stack, an allocation waits for memory;
// otherwise it throws std::bad_alloc. Some destructors allocate (Asio's coroutines post the destruction of
// their frames), and a second exception there would end the process.
#pragma once

namespace nibble {

void wait_for_memory_while_unwinding();

}  // namespace nibble
