// Linked with a room and with those that it may see, to show that it needs nothing else.
int main() {}
