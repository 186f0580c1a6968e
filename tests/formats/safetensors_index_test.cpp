#include "formats/safetensors_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "formats/container_error.h"

namespace nibble {
namespace {

using Fault = ContainerFault;

std::optional<Fault> index_fault(std::string_view json) {
  try {
    parse_safetensors_index(json, "index.json");
    return std::nullopt;
  } catch (const ContainerError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("index.json: " + std::string(name(error.fault)) + ": "));
    return error.fault;
  }
}

TEST(SafetensorsIndex, EachTensorLeadsToItsFile) {
  const SafetensorsIndex index = parse_safetensors_index(
      R"({"metadata":{"total_size":3},"weight_map":{"a":"two","b":"one","c":"two"},"more":[1]})",
      "index.json");
  EXPECT_THAT(index.files, testing::ElementsAre("two", "one"));
  EXPECT_THAT(index.file_index, testing::UnorderedElementsAre(testing::Pair("a", 0), testing::Pair("b", 1),
                                                              testing::Pair("c", 0)));
}

TEST(SafetensorsIndex, AnythingButAMapOfNamesToNamesIsRefused) {
  for (const std::string_view json :
       {"[]", "1", "{}", R"({"weight_map":[]})", R"({"weight_map":null})", R"({"weight_map":{}})",
        R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":["f"]}})", R"({"weight_map":{"a":null}})"})
    EXPECT_EQ(index_fault(json), Fault::kBadIndex) << json;
}

TEST(SafetensorsIndex, AFileOutsideTheFolderIsRefused) {
  for (const std::string_view file :
       {"../f", "/etc/passwd", "..", ".", "", "a/../../f", "a/f", "..\\\\f", "f\\u0000g"})
    EXPECT_EQ(index_fault(R"({"weight_map":{"a":")" + std::string(file) + R"("}})"), Fault::kBadFileName)
        << file;
}

TEST(SafetensorsIndex, ANameGivenTwiceIsRefused) {
  EXPECT_EQ(index_fault(R"({"weight_map":{"a":"f","a":"f"}})"), Fault::kDuplicateName);
  EXPECT_EQ(index_fault(R"({"weight_map":{"a":"f"},"weight_map":{"a":"f"}})"), Fault::kDuplicateName);
}

TEST(SafetensorsIndex, BrokenTextIsRefused) {
  EXPECT_EQ(index_fault(""), Fault::kInvalidJson);
  EXPECT_EQ(index_fault(R"({"weight_map":{"a":"f")"), Fault::kInvalidJson);
  EXPECT_EQ(index_fault("{\"weight_map\":{\"a\":\"\xFF\"}}"), Fault::kInvalidUtf8);
  EXPECT_EQ(index_fault(R"({"metadata":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
            Fault::kTooDeep);
  EXPECT_EQ(index_fault(R"({"metadata":{"total_size":1e999},"weight_map":{"a":"f"}})"), Fault::kBadNumber);
}

}  // namespace
}  // namespace nibble
