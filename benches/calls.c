/* Calls a function of another library, which is bound by then: calls COUNT. */
#include <stdlib.h>

int next(int number);

int main(int argc, char **argv)
{
    int number = 0;
    for (long left = argc > 1 ? atol(argv[1]) : 0; left > 0; left--)
        number = next(number);
    return number == -1;
}
