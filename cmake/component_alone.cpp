// This program is linked with a layer and the layers that it may use, to show that it needs nothing else.
int main() {}
