#include "base/text_table.h"

#include <gtest/gtest.h>

namespace ashlar {
namespace {

TEST(TextTable, TheFirstColumnIsLeftTheOthersRight) {
  TextTable table;
  table.Add({"codec", "bytes", ""});
  table.Add({"f16", "23,040", "x"});
  table.Add({"a"});
  EXPECT_EQ(table.Text("  "),
            "  codec   bytes\n"
            "  f16    23,040  x\n"
            "  a\n");
}

TEST(TextTable, WidthIsInCharacters) {
  EXPECT_EQ(TextWidth("±"), 1u);
  TextTable table;
  table.Add({"a", "±1"});
  table.Add({"b", "22"});
  EXPECT_EQ(table.Text(), "a  ±1\nb  22\n");
}

TEST(TextTable, WithoutRowsIsEmpty) { EXPECT_EQ(TextTable().Text(), ""); }

}  // namespace
}  // namespace ashlar
