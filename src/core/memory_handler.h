// What operator new does where memory is short.
#pragma once

namespace nibble {

// Sets the process's new-handler: while an exception unwinds, an allocation waits for memory; otherwise it throws std::bad_alloc, as without a
// handler. Destructors allocate (Asio's coroutines post the destruction of their frames), and a second exception there ends the process.
void wait_for_memory_while_unwinding();

}  // namespace nibble
