#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "formats/container_error.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/formats/safetensors_bytes.h"

namespace nibble {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Fault = ContainerFault;

constexpr uint32_t kF32{0}, kQ8_0{8}, kMxfp4{39};

std::optional<Fault> gguf_fault(const std::string& file, std::string_view part_of_message = "") {
  try {
    parse_gguf(as_bytes(file), "x.gguf");
    return std::nullopt;
  } catch (const ContainerError& error) {
    EXPECT_THAT(error.what(), HasSubstr(std::string(part_of_message)));
    EXPECT_THAT(error.what(), HasSubstr("x.gguf"));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.fault;
  }
}

// Returns a file with two tensors: 2 x 3 of F32, padded from 24 to 32 bytes, then one row of MXFP4.
GgufBytes two_tensors() {
  GgufBytes file;
  file.metadata = {gguf_text("general.architecture", "gpt-oss"), gguf_u32("gpt-oss.block_count", 24)};
  file.tensors = {gguf_tensor("a", {3, 2}, kF32, 0), gguf_tensor("b", {32}, kMxfp4, 32)};
  file.data = std::string(32, 'a') + std::string(17, 'b');
  return file;
}

TEST(Gguf, Type4IsMxfp4InFilesOfOllamaOnly) {
  GgufBytes file = two_tensors();
  file.tensors[1] = gguf_tensor("b", {32}, 4, 32);
  EXPECT_EQ(gguf_fault(file.file(), "type 4; expected"), Fault::kUnknownGgmlType);
  file.metadata[0] = gguf_text("general.architecture", "gptoss");
  const std::string ollamas = file.file();
  EXPECT_EQ(parse_gguf(as_bytes(ollamas), "x.gguf").tensors[1].type, GgmlType::kMxfp4Ollama);
}

TEST(Gguf, TensorsAreViewsWithTheirOutermostExtentFirst) {
  const std::string file = two_tensors().file();
  const Gguf gguf = parse_gguf(as_bytes(file), "x.gguf");
  ASSERT_EQ(gguf.tensors.size(), 2u);
  const GgufTensor& a = gguf.tensors[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type, GgmlType::kF32);
  EXPECT_THAT(a.shape, ElementsAre(2, 3));
  EXPECT_EQ(as_text(a.data), std::string(24, 'a'));
  EXPECT_EQ(as_text(gguf.find("b")->data), std::string(17, 'b'));
  EXPECT_EQ(gguf.find("c"), nullptr);
}

TEST(Gguf, MetadataHaveTheirTypes) {
  GgufBytes file;
  file.metadata = {
      gguf_entry("u8", 0, le<uint8_t>(200)),
      gguf_entry("i8", 1, le<int8_t>(-7)),
      gguf_entry("i16", 3, le<int16_t>(-300)),
      gguf_entry("i32", 5, le<int32_t>(-70000)),
      gguf_entry("f32", 6, le(1.5f)),
      gguf_entry("bool", 7, le<uint8_t>(1)),
      gguf_text("text", "héllo"),
      gguf_entry("texts", 9, le<uint32_t>(8) + le<uint64_t>(2) + gguf_string("ab") + gguf_string("")),
      gguf_entry("bools", 9, le<uint32_t>(7) + le<uint64_t>(3) + std::string("\1\0\1", 3)),
      gguf_entry("u64", 10, le<uint64_t>(UINT64_MAX)),
      gguf_entry("i64", 11, le<int64_t>(INT64_MIN)),
      gguf_entry("f64", 12, le(-0.25))};
  const std::string bytes = file.file();
  const Gguf gguf = parse_gguf(as_bytes(bytes), "x.gguf");
  EXPECT_EQ(gguf.value("u8")->integer(), 200);
  EXPECT_EQ(gguf.value("i8")->integer(), -7);
  EXPECT_EQ(gguf.value("i16")->integer(), -300);
  EXPECT_EQ(gguf.value("i32")->number(), -70000.0);
  EXPECT_EQ(gguf.value("f32")->number(), 1.5);
  EXPECT_EQ(gguf.value("f32")->integer(), std::nullopt);
  EXPECT_EQ(gguf.value("bool")->boolean(), true);
  EXPECT_EQ(gguf.value("bool")->integer(), std::nullopt);
  EXPECT_EQ(gguf.value("text")->text(), "héllo");
  EXPECT_THAT(*gguf.value("texts")->texts(), ElementsAre("ab", ""));
  EXPECT_EQ(gguf.value("texts")->integers(), std::nullopt);
  EXPECT_THAT(*gguf.value("bools")->integers(), ElementsAre(1, 0, 1));
  EXPECT_EQ(gguf.value("u64")->integer(), std::nullopt);  // too large for int64_t
  EXPECT_EQ(gguf.value("i64")->integer(), INT64_MIN);
  EXPECT_EQ(gguf.value("f64")->number(), -0.25);
}

TEST(Gguf, EveryPrefixOfAFileIsRefused) {
  const std::string file = two_tensors().file();
  for (size_t length = 4; length < file.size(); ++length)
    EXPECT_EQ(gguf_fault(file.substr(0, length)), Fault::kTruncated) << length;
}

TEST(Gguf, OtherVersionsAreRefused) {
  GgufBytes file = two_tensors();
  file.version = 2;
  EXPECT_EQ(gguf_fault(file.file(), "version 2; expected 3"), Fault::kBadVersion);
  file.version = 0x03000000;
  EXPECT_EQ(gguf_fault(file.file(), "big-endian"), Fault::kBadVersion);
}

TEST(Gguf, CountsAndLengthsBeyondTheFileAreRefused) {
  EXPECT_EQ(gguf_fault("GGUF" + le<uint32_t>(3) + le<uint64_t>(UINT64_MAX) + le<uint64_t>(0)),
            Fault::kTruncated);
  EXPECT_EQ(gguf_fault("GGUF" + le<uint32_t>(3) + le<uint64_t>(0) + le<uint64_t>(UINT64_MAX)),
            Fault::kTruncated);
  GgufBytes file;
  file.metadata = {le<uint64_t>(UINT64_MAX - 3) + "key"};
  EXPECT_EQ(gguf_fault(file.file()), Fault::kTruncated);
  file.metadata = {gguf_entry("text", 8, le<uint64_t>(UINT64_MAX))};
  EXPECT_EQ(gguf_fault(file.file()), Fault::kTruncated);
  for (const uint32_t element : {0u, 4u, 8u, 12u}) {
    file.metadata = {gguf_entry("list", 9, le(element) + le<uint64_t>(UINT64_MAX / 2))};
    EXPECT_EQ(gguf_fault(file.file(), "list"), Fault::kTruncated) << element;
  }
}

TEST(Gguf, BadValuesAreRefused) {
  GgufBytes file;
  file.metadata = {gguf_entry("key", 13, le<uint64_t>(0))};
  EXPECT_EQ(gguf_fault(file.file(), "value type 13"), Fault::kBadMetadata);
  file.metadata = {gguf_entry("key", 7, "\2")};
  EXPECT_EQ(gguf_fault(file.file(), "bool with the value 2"), Fault::kBadMetadata);
  file.metadata = {gguf_entry("key", 9, le<uint32_t>(7) + le<uint64_t>(2) + "\1\3")};
  EXPECT_EQ(gguf_fault(file.file(), "bool with the value 3"), Fault::kBadMetadata);
  file.metadata = {
      gguf_entry("key", 9, le<uint32_t>(9) + le<uint64_t>(1) + le<uint32_t>(0) + le<uint64_t>(0))};
  EXPECT_EQ(gguf_fault(file.file(), "array of arrays"), Fault::kTooDeep);
  file.metadata = {gguf_u32("key", 1), gguf_u32("key", 1)};
  EXPECT_EQ(gguf_fault(file.file(), "metadata \"key\""), Fault::kDuplicateName);
}

TEST(Gguf, AlignmentsThatAreNoneAreRefused) {
  for (const uint32_t alignment : {0u, 4u, 24u, 33u, 1u << 21}) {
    GgufBytes file;
    file.metadata = {gguf_u32("general.alignment", alignment)};
    EXPECT_EQ(gguf_fault(file.file(), "power of two"), Fault::kBadMetadata) << alignment;
  }
  GgufBytes file = two_tensors();
  file.metadata.push_back(gguf_u32("general.alignment", 64));
  file.alignment = 64;
  file.tensors[1] = gguf_tensor("b", {32}, kMxfp4, 64);
  file.data.insert(32, 32, '\0');
  EXPECT_EQ(gguf_fault(file.file()), std::nullopt);
}

TEST(Gguf, TensorsMustFollowEachOther) {
  GgufBytes file = two_tensors();
  file.tensors[1] = gguf_tensor("b", {32}, kMxfp4, 0);
  EXPECT_EQ(gguf_fault(file.file()), Fault::kOverlap);
  file.tensors[1] = gguf_tensor("b", {32}, kMxfp4, 24);  // not aligned
  EXPECT_EQ(gguf_fault(file.file()), Fault::kGap);
  file.tensors[1] = gguf_tensor("b", {32}, kMxfp4, 64);
  EXPECT_EQ(gguf_fault(file.file()), Fault::kGap);
  file.tensors[1] = gguf_tensor("a", {32}, kMxfp4, 32);
  EXPECT_EQ(gguf_fault(file.file(), "tensor \"a\""), Fault::kDuplicateName);
}

TEST(Gguf, ShapesThatCanNotBeAreRefused) {
  GgufBytes file = two_tensors();
  file.tensors[1] = gguf_tensor("b", {uint64_t{1} << 40, uint64_t{1} << 40}, kMxfp4, 32);
  EXPECT_EQ(gguf_fault(file.file()), Fault::kSizeOverflow);
  file.tensors[1] = gguf_tensor("b", {uint64_t{1} << 62}, kF32, 32);
  EXPECT_EQ(gguf_fault(file.file()), Fault::kSizeOverflow);
  file.tensors[1] = gguf_tensor("b", {1, 1, 1, 1, 1}, kF32, 32);
  EXPECT_EQ(gguf_fault(file.file(), "5 dimensions"), Fault::kBadEntry);
  file.tensors[1] = gguf_tensor("b", {16, 2}, kQ8_0, 32);  // 32 elements, but no row consists of whole blocks
  EXPECT_EQ(gguf_fault(file.file(), "blocks of 32"), Fault::kSizeMismatch);
}

TEST(Gguf, TypesThatAreNotReadAreNamed) {
  GgufBytes file = two_tensors();
  file.tensors[1] = gguf_tensor("b", {256}, 19, 32);
  EXPECT_EQ(gguf_fault(file.file(), "IQ1_S (19); expected one of F32, F16, BF16, Q8_0, MXFP4"),
            Fault::kUnknownGgmlType);
  file.tensors[1] = gguf_tensor("b", {32}, 4, 32);
  EXPECT_EQ(gguf_fault(file.file(), "type 4; expected"), Fault::kUnknownGgmlType);
}

TEST(Gguf, BytesOfATypesBlocksAreThoseOfItsLayout) {
  EXPECT_EQ(block_bytes(GgmlType::kQ8_0), 2u + 32);
  EXPECT_EQ(block_bytes(GgmlType::kMxfp4), 1u + 16);
  EXPECT_EQ(block_bytes(GgmlType::kQ5_1), 2u + 2 + 4 + 16);
  EXPECT_EQ(block_bytes(GgmlType::kQ4K), 2u + 2 + 12 + 128);
  EXPECT_EQ(block_bytes(GgmlType::kQ6K), 128u + 64 + 16 + 2);
  EXPECT_EQ(block_bytes(GgmlType::kQ2K), 16u + 64 + 2 + 2);
  EXPECT_EQ(block_bytes(GgmlType::kQ3K), 32u + 64 + 12 + 2);
  EXPECT_EQ(block_bytes(GgmlType::kIq4Xs), 2u + 2 + 4 + 128);
  EXPECT_EQ(block_bytes(GgmlType::kIq3S), 2u + 64 + 8 + 32 + 4);
  EXPECT_EQ(block_bytes(GgmlType::kNvfp4), 4u + 32);
}

class SplitGguf : public testing::Test {
 protected:
  SplitGguf()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("nibble_gguf_" + std::to_string(::getpid()) + "_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (uint16_t number = 0; number < 2; ++number) {
      GgufBytes& part = parts_[number];
      part.metadata = {gguf_entry("split.no", 2, le(number)), gguf_entry("split.count", 2, le<uint16_t>(2)),
                       gguf_entry("split.tensors.count", 5, le<int32_t>(2))};
      part.tensors = {gguf_tensor(number == 0 ? "a" : "b", {1}, kF32, 0)};
      part.data = number == 0 ? "aaaa" : "bbbb";
    }
  }
  ~SplitGguf() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // Writes both parts. Returns the fault found when the first part is opened.
  std::optional<Fault> fault(const std::string& first = "m-00001-of-00002.gguf") {
    const auto path = write(first, parts_[0].file());
    write("m-00002-of-00002.gguf", parts_[1].file());
    return fault_of_opening(path);
  }
  static std::optional<Fault> fault_of_opening(const std::filesystem::path& path) {
    try {
      open_gguf(path);
      return std::nullopt;
    } catch (const ContainerError& error) {
      return error.fault;
    }
  }

  std::filesystem::path folder_;
  GgufBytes parts_[2];
};

TEST_F(SplitGguf, AllPartsAreOneModel) {
  ASSERT_EQ(fault(), std::nullopt);
  const Gguf gguf = open_gguf(folder_ / "m-00001-of-00002.gguf");
  ASSERT_EQ(gguf.tensors.size(), 2u);
  EXPECT_EQ(as_text(gguf.find("a")->data), "aaaa");
  EXPECT_EQ(as_text(gguf.find("b")->data), "bbbb");
  EXPECT_EQ(gguf.find("b")->file_index, 1u);
  EXPECT_EQ(gguf.files[1].filename(), "m-00002-of-00002.gguf");
}

TEST_F(SplitGguf, PartsThatDoNotBelongTogetherAreRefused) {
  EXPECT_EQ(fault("renamed.gguf"), Fault::kBadSplit);
  // The second part cannot be opened on its own.
  EXPECT_EQ(fault_of_opening(folder_ / "m-00002-of-00002.gguf"), Fault::kBadSplit);
  parts_[1].metadata[0] = gguf_entry("split.no", 2, le<uint16_t>(0));
  EXPECT_EQ(fault(), Fault::kBadSplit);
}

TEST_F(SplitGguf, APartThatIsNotThereIsNamed) {
  const auto first = write("m-00001-of-00002.gguf", parts_[0].file());
  EXPECT_EQ(fault_of_opening(first), Fault::kMissingFile);
}

TEST_F(SplitGguf, ATensorInTwoPartsIsRefused) {
  parts_[1].tensors = {gguf_tensor("a", {1}, kF32, 0)};
  EXPECT_EQ(fault(), Fault::kDuplicateName);
}

TEST_F(SplitGguf, MoreTensorsThanTheFirstPartSaysAreRefused) {
  parts_[0].metadata[2] = gguf_entry("split.tensors.count", 5, le<int32_t>(3));
  EXPECT_EQ(fault(), Fault::kBadSplit);
  parts_[0].metadata[2] = gguf_entry("split.tensors.count", 5, le<int32_t>(-1));
  EXPECT_EQ(fault(), Fault::kBadSplit);
}

}  // namespace
}  // namespace nibble
