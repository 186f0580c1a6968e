#include "cli/chat/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<ChatName> kNames{
    {"read", true}, {"reasoning", false}, {"reset", false}, {"save", true}, {"set", false}};

TEST(Complete, ACommandIsCompletedAsFarAsItIsClear) {
  EXPECT_EQ(complete("/sa", kNames).insert, "ve ");
  EXPECT_EQ(complete("/reas", kNames).insert, "oning ");
  EXPECT_EQ(complete("/rea", kNames).insert, "");
  EXPECT_THAT(complete("/rea", kNames).choices, ElementsAre("read", "reasoning"));
  EXPECT_EQ(complete("/r", kNames).insert, "e");
  EXPECT_EQ(complete("/save", kNames).insert, " ");
  EXPECT_THAT(complete("/x", kNames).choices, IsEmpty());
}

TEST(Complete, AQuestionIsNotCompleted) {
  EXPECT_EQ(complete("rea", kNames).insert, "");
  EXPECT_EQ(complete("/sa\nmore", kNames).insert, "");
  EXPECT_EQ(complete("/set te", kNames).insert, "");
  EXPECT_EQ(complete("", kNames).insert, "");
}

TEST(Complete, AFileIsCompletedAfterACommandThatTakesOne) {
  const fs::path folder = fs::path(testing::TempDir()) / "nibble_complete";
  fs::remove_all(folder);
  fs::create_directories(folder / "notes");
  for (const char* name : {"one.txt", "once.txt", ".hidden"}) std::ofstream(folder / name) << "x";
  const std::string base = folder.string() + "/";
  EXPECT_EQ(complete("/read " + base + "no", kNames).insert, "tes/");
  EXPECT_EQ(complete("/read " + base + "one", kNames).insert, ".txt");
  EXPECT_EQ(complete("/save " + base + "o", kNames).insert, "n");
  EXPECT_THAT(complete("/read " + base, kNames).choices, ElementsAre("notes/", "once.txt", "one.txt"));
  EXPECT_THAT(complete("/read " + base + ".h", kNames).insert, "idden");
  EXPECT_THAT(complete("/read /no/such/folder/x", kNames).choices, IsEmpty());
  fs::remove_all(folder);
}

}  // namespace
}  // namespace nibble::cli
