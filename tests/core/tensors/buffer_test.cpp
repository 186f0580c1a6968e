#include "core/tensors/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace nibble {
namespace {

TEST(Buffer, IsAlignedWhateverItsSize) {
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1} << 20}) {
    const Buffer buffer(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment, 0u);
    std::memset(buffer.data(), 1, bytes);  // all bytes are writable
  }
}

TEST(Buffer, MovesWithItsBytes) {
  Buffer buffer(8);
  std::byte* const data = buffer.data();
  const Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.data(), data);
  EXPECT_EQ(moved.bytes(), 8u);
}

}  // namespace
}  // namespace nibble
