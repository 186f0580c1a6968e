#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "formats/container_error.h"
#include "tests/formats/safetensors_bytes.h"

namespace nibble {
namespace {

using Fault = ContainerFault;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Tensor> parse(const std::string& file) {
  return parse_safetensors(as_bytes(file), "x.safetensors");
}

// Returns the fault for which `file` is refused; std::nullopt if it is accepted. Checks that the message is
// one line with the file, the name of the fault and its remedy.
std::optional<Fault> fault_of(const std::string& file) {
  try {
    parse(file);
    return std::nullopt;
  } catch (const ContainerError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("x.safetensors: " + std::string(name(error.fault)) + ": "));
    EXPECT_THAT(error.what(), testing::EndsWith(remedy(error.fault)));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.fault;
  }
}

std::optional<Fault> fault_of(std::string_view header, std::string_view data) {
  return fault_of(safetensors_bytes(header, data));
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

std::string header(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return R"({"a":)" + entry(dtype, shape, offsets) + "}";
}

TEST(Safetensors, TensorsComeInTheOrderOfTheirData) {
  const std::string file = safetensors_bytes(
      R"({"late":)" + entry("U8", "[2,1]", "[4,6]") + R"(,"early":)" + entry("BF16", "[2]", "[0,4]") + "}  ",
      "abcdEF");
  const std::vector<Tensor> tensors = parse(file);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "early");
  EXPECT_EQ(tensors[0].dtype, DType::kBf16);
  EXPECT_THAT(tensors[0].shape, ElementsAre(2));
  EXPECT_EQ(as_text(tensors[0].data), "abcd");
  EXPECT_EQ(tensors[1].name, "late");
  EXPECT_EQ(tensors[1].dtype, DType::kU8);
  EXPECT_THAT(tensors[1].shape, ElementsAre(2, 1));
  EXPECT_EQ(as_text(tensors[1].data), "EF");
}

TEST(Safetensors, DataIsTheFilesOwn) {
  const std::string file = safetensors_bytes(header("U8", "[3]", "[0,3]"), "xyz");
  const std::vector<Tensor> tensors = parse(file);
  EXPECT_EQ(static_cast<const void*>(tensors[0].data.data()), file.data() + file.size() - 3);
}

TEST(Safetensors, AFileWithoutTensorsIsLegal) {
  EXPECT_TRUE(parse(safetensors_bytes("{}")).empty());
  EXPECT_TRUE(parse(safetensors_bytes(R"({"__metadata__":{"format":"pt","k":""}})")).empty());
}

TEST(Safetensors, AScalarHasOneElementAndAnEmptyTensorNone) {
  const std::vector<Tensor> tensors =
      parse(safetensors_bytes(R"({"scalar":)" + entry("F32", "[]", "[0,4]") + R"(,"none":)" +
                                  entry("F32", "[7,0,18446744073709551615]", "[4,4]") + R"(,"first":)" +
                                  entry("U8", "[0]", "[0,0]") + "}",
                              "1234"));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "first");
  EXPECT_EQ(tensors[0].data.size(), 0u);
  EXPECT_EQ(tensors[1].name, "scalar");
  EXPECT_EQ(tensors[1].data.size(), 4u);
  EXPECT_EQ(tensors[2].name, "none");
  EXPECT_EQ(tensors[2].data.size(), 0u);
}

TEST(Safetensors, ElementsBelowAByteArePacked) {
  EXPECT_EQ(parse(safetensors_bytes(header("F4", "[4]", "[0,2]"), "ab"))[0].data.size(), 2u);
  EXPECT_EQ(parse(safetensors_bytes(header("F6_E2M3", "[4]", "[0,3]"), "abc"))[0].data.size(), 3u);
}

TEST(Safetensors, EveryDTypeOfTheFormatIsRead) {
  for (const auto& [dtype, num_bytes] : std::vector<std::pair<std::string, size_t>>{
           {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
           {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
           {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
           {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
           {"I64", 64},        {"U64", 64}})
    EXPECT_EQ(fault_of(header(dtype, "[8]", fmt::format("[0,{}]", num_bytes)), std::string(num_bytes, 'x')),
              std::nullopt)
        << dtype;
}

TEST(Safetensors, NamesMayBeAnyUtf8) {
  const std::string file =
      safetensors_bytes(R"({"":)" + entry("U8", "[1]", "[0,1]") +
                            ",\"\xC3\xA9\\u00e9\\n\":" + entry("U8", "[1]", "[1,2]") + "}",
                        "ab");
  const std::vector<Tensor> tensors = parse(file);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "");
  EXPECT_EQ(tensors[1].name, "\xC3\xA9\xC3\xA9\n");
}

TEST(SafetensorsFaults, ATruncatedFile) {
  const std::string whole = safetensors_bytes(header("U8", "[4]", "[0,4]"), "abcd");
  ASSERT_EQ(fault_of(whole), std::nullopt);
  for (size_t num_bytes = 0; num_bytes < whole.size(); ++num_bytes)
    EXPECT_EQ(fault_of(whole.substr(0, num_bytes)), Fault::kTruncated) << num_bytes;
}

TEST(SafetensorsFaults, AHeaderOverTheLimit) {
  const auto with_length = [](uint64_t length) {
    std::string file(64, ' ');
    std::memcpy(file.data(), &length, sizeof(length));
    return file;
  };
  EXPECT_EQ(fault_of(with_length(100'000'000)), Fault::kTruncated);  // allowed, but the file is shorter
  EXPECT_EQ(fault_of(with_length(100'000'001)), Fault::kHeaderTooLarge);
  EXPECT_EQ(fault_of(with_length(UINT64_MAX)), Fault::kHeaderTooLarge);
  EXPECT_EQ(fault_of(with_length(UINT64_MAX - 7)), Fault::kHeaderTooLarge);  // 8 + length wraps to 0
}

TEST(SafetensorsFaults, AHeaderThatIsNotAnObject) {
  EXPECT_EQ(fault_of("", ""), Fault::kHeaderNotObject);
  EXPECT_EQ(fault_of("[]", ""), Fault::kHeaderNotObject);
  EXPECT_EQ(fault_of(" {}", ""), Fault::kHeaderNotObject);  // the format requires a brace as the first byte
  EXPECT_EQ(fault_of("\xEF\xBB\xBF{}", ""), Fault::kHeaderNotObject);
}

TEST(SafetensorsFaults, InvalidJson) {
  for (const std::string_view text :
       {"{", "{]", "{}}", "{\"a\"}", "{\"a\":}", "{'a':{}}", "{} x", "{\"a\":{},}", "{\"\\ud800\":{}}",
        "{\"a\nb\":{}}", "{\"a\":{}/**/}", "{\"a\":NaN}", "{\"a\":01}"})
    EXPECT_THAT(fault_of(text, ""), testing::AnyOf(Fault::kInvalidJson, Fault::kBadNumber)) << text;
  EXPECT_EQ(fault_of(std::string_view("{}\0{}", 5), ""), Fault::kInvalidJson);
  EXPECT_EQ(fault_of(std::string_view("{}\0", 3), ""), Fault::kInvalidJson);
}

TEST(SafetensorsFaults, InvalidUtf8) {
  for (const std::string_view bytes :
       {"\xFF", "\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"})
    EXPECT_EQ(fault_of("{\"__metadata__\":{\"k\":\"" + std::string(bytes) + "\"}}", ""), Fault::kInvalidUtf8);
}

TEST(SafetensorsFaults, DeepJson) {
  EXPECT_EQ(fault_of(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "x"), Fault::kTooDeep);
  const size_t kDeep{1'000'000};
  EXPECT_EQ(fault_of(R"({"a":)" + std::string(kDeep, '[') + std::string(kDeep, ']') + "}", ""),
            Fault::kTooDeep);
  std::string objects;
  for (size_t i = 0; i < kDeep; ++i) objects += R"({"a":)";
  EXPECT_EQ(fault_of(objects + "1" + std::string(kDeep, '}'), ""), Fault::kTooDeep);
}

TEST(SafetensorsFaults, ANameGivenTwice) {
  const std::string one = entry("U8", "[1]", "[0,1]");
  EXPECT_EQ(fault_of(R"({"a":)" + one + R"(,"a":)" + one + "}", "x"), Fault::kDuplicateName);
  EXPECT_EQ(fault_of(R"({"a":)" + one + R"(,"\u0061":)" + entry("U8", "[1]", "[1,2]") + "}", "xy"),
            Fault::kDuplicateName);
  EXPECT_EQ(fault_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"),
            Fault::kDuplicateName);
  EXPECT_EQ(fault_of(R"({"__metadata__":{},"__metadata__":{}})", ""), Fault::kDuplicateName);
  EXPECT_EQ(fault_of(R"({"__metadata__":{"k":"1","k":"2"}})", ""), Fault::kDuplicateName);
}

TEST(SafetensorsFaults, MetadataThatIsNotStringToString) {
  for (const std::string_view metadata :
       {"1", "[]", "null", "\"pt\"", R"({"k":1})", R"({"k":null})", R"({"k":{}})"})
    EXPECT_EQ(fault_of(R"({"__metadata__":)" + std::string(metadata) + "}", ""), Fault::kBadMetadata)
        << metadata;
}

TEST(SafetensorsFaults, AnEntryThatIsNotDTypeShapeAndOffsets) {
  for (const std::string_view bad : {
           "1", "[]", "null", "{}",                                            //
           R"({"dtype":"U8","shape":[1]})",                                    // a field is missing
           R"({"dtype":"U8","data_offsets":[0,1]})",                           //
           R"({"shape":[1],"data_offsets":[0,1]})",                            //
           R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"stride":[1]})",  // a field is unknown
           R"({"dtype":8,"shape":[1],"data_offsets":[0,1]})",                  // a field has the wrong type
           R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})",                 //
           R"({"dtype":"U8","shape":[1],"data_offsets":"0,1"})",               //
           R"({"dtype":"U8","shape":[1],"data_offsets":[]})",                  // not two offsets
           R"({"dtype":"U8","shape":[1],"data_offsets":[1]})",                 //
           R"({"dtype":"U8","shape":[1],"data_offsets":[0,1,1]})",             //
       })
    EXPECT_EQ(fault_of(R"({"a":)" + std::string(bad) + "}", "x"), Fault::kBadEntry) << bad;
}

TEST(SafetensorsFaults, AnUnknownDType) {
  for (const std::string_view dtype : {"", "bf16", "F128", "BF16 ", "MXFP4"})
    EXPECT_EQ(fault_of(header(dtype, "[1]", "[0,1]"), "x"), Fault::kUnknownDType) << dtype;
}

TEST(SafetensorsFaults, NumbersThatCountNothing) {
  for (const std::string_view number : {"-1", "1.0", "1e0", "0.5", "\"1\"", "null", "true",
                                        "18446744073709551616", "-9223372036854775809", "1e999"}) {
    EXPECT_EQ(fault_of(header("U8", fmt::format("[{}]", number), "[0,1]"), "x"), Fault::kBadNumber) << number;
    EXPECT_EQ(fault_of(header("U8", "[1]", fmt::format("[{},1]", number)), "x"), Fault::kBadNumber) << number;
    EXPECT_EQ(fault_of(header("U8", "[1]", fmt::format("[0,{}]", number)), "x"), Fault::kBadNumber) << number;
  }
}

TEST(SafetensorsFaults, ASizeThatOverflows) {
  EXPECT_EQ(fault_of(header("U8", "[4294967296,4294967296]", "[0,0]"), ""), Fault::kSizeOverflow);
  EXPECT_EQ(fault_of(header("U8", "[2305843009213693952]", "[0,0]"), ""),
            Fault::kSizeOverflow);  // 2^61 bytes are 2^64 bits
  EXPECT_EQ(fault_of(header("U8", "[18446744073709551615,18446744073709551615,2]", "[0,2]"), "xx"),
            Fault::kSizeOverflow);
}

TEST(SafetensorsFaults, BitsThatFillNoByte) {
  EXPECT_EQ(fault_of(header("F4", "[3]", "[0,1]"), "x"), Fault::kPartialByte);
  EXPECT_EQ(fault_of(header("F6_E3M2", "[3]", "[0,3]"), "xxx"), Fault::kPartialByte);
}

TEST(SafetensorsFaults, AShapeThatDisagreesWithTheData) {
  EXPECT_EQ(fault_of(header("BF16", "[2]", "[0,2]"), "xx"), Fault::kSizeMismatch);
  EXPECT_EQ(fault_of(header("U8", "[0]", "[0,1]"), "x"), Fault::kSizeMismatch);
  EXPECT_EQ(fault_of(header("U8", "[]", "[0,0]"), ""), Fault::kSizeMismatch);
  EXPECT_EQ(fault_of(header("U8", "[1]", "[0,18446744073709551615]"), "x"), Fault::kSizeMismatch);
}

TEST(SafetensorsFaults, OffsetsInReverse) {
  EXPECT_EQ(fault_of(header("U8", "[1]", "[1,0]"), "x"), Fault::kReversedOffsets);
  EXPECT_EQ(fault_of(header("U8", "[1]", "[18446744073709551615,0]"), "x"), Fault::kReversedOffsets);
}

std::string two_bytes_each(std::string_view first_offsets, std::string_view second_offsets) {
  return R"({"a":)" + entry("U8", "[2]", first_offsets) + R"(,"b":)" + entry("U8", "[2]", second_offsets) +
         "}";
}

TEST(SafetensorsFaults, TensorsThatOverlap) {
  EXPECT_EQ(fault_of(two_bytes_each("[0,2]", "[1,3]"), "xxx"), Fault::kOverlap);
  EXPECT_EQ(fault_of(two_bytes_each("[0,2]", "[0,2]"), "xx"), Fault::kOverlap);
  // Bytes 0 and 1 belong to no tensor.
  EXPECT_EQ(fault_of(two_bytes_each("[2,4]", "[2,4]"), "xxxx"), Fault::kGap);
}

TEST(SafetensorsFaults, AGapBeforeOrBetweenTensors) {
  EXPECT_EQ(fault_of(two_bytes_each("[0,2]", "[3,5]"), "xxxxx"), Fault::kGap);
  EXPECT_EQ(fault_of(header("U8", "[1]", "[1,2]"), "xx"), Fault::kGap);
  EXPECT_EQ(fault_of(header("U8", "[0]", "[1,1]"), "x"), Fault::kGap);
}

TEST(SafetensorsFaults, TrailingBytes) {
  EXPECT_EQ(fault_of("{}", "x"), Fault::kTrailingBytes);
  EXPECT_EQ(fault_of(header("U8", "[2]", "[0,2]"), "xxx"), Fault::kTrailingBytes);
}

TEST(SafetensorsFaults, AMessageShowsAHostileNameOnOneLineAndCutShort) {
  const std::string name = "a\\n\\u001b[31m" + std::string(5000, 'z');
  try {
    parse(safetensors_bytes("{\"" + name + "\":1}"));
    FAIL();
  } catch (const ContainerError& error) {
    EXPECT_THAT(error.what(), HasSubstr(R"("a\x0a\x1b[31mzzz)"));
    EXPECT_LT(std::string(error.what()).size(), 400u);
  }
}

}  // namespace
}  // namespace nibble
