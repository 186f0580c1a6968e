// The behaviour of operator new when memory is short.
#pragma once

namespace nibble {

// Sets the process's new-handler. While an exception unwinds the stack, an allocation waits for memory. At
// other times it throws std::bad_alloc, as without a handler. Some destructors allocate (Asio's coroutines
// post the destruction of their frames), and a second exception there would end the process.
void wait_for_memory_while_unwinding();

}  // namespace nibble
