#include "launcher/commands.h"

int main(int argc, char** argv) {
  return ddp::launcher::run_command(argc, argv);
}
