//! Headers of numbers, and names that two columns have.

use super::{done, refused, write};
use crate::common::{contents, folder};

const COLUMNS: &str = "--modes 2019,2020 --value rating";

#[test]
fn a_header_of_numbers_is_one_where_a_name_that_was_given_stands_in_it() {
    let folder = folder();
    let folder = folder.path();
    let entries = |text: &str, columns: &str| {
        write(folder, "in.csv", text);
        done(folder, &format!("convert in.csv -o out --force --split none {columns}"));
        contents(&folder.join("out")).len()
    };
    assert_eq!(entries("2019,2020,rating\n1,5,3\n2,6,4\n", COLUMNS), 2);
    let text = "2019,2020,7,2021\n1,1000,3,1\n2,2000,4,2\n";
    for columns in [
        "--modes 2019,2 --value 3",
        "--modes 1,2 --value 2021",
        "--modes 1,2 --value 3 --weights 2021",
        "--modes 1,2 --value 3 --bin 2020=10",
    ] {
        assert_eq!(entries(text, columns), 2, "{columns}: the header is no row");
    }
    assert_eq!(entries(text, "--modes 1,2 --value 3"), 3, "nobody gave a name");
    let said = refused(folder, "convert in.csv -o no --modes 2019,2 --value stars");
    assert!(said.contains("no column 'stars': the columns are 2019, 2020, 7, 2021"), "{said}");
}

#[test]
fn a_row_of_data_is_no_header_because_it_holds_the_number_of_a_column() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "in.csv", "1,2,3\n4,5,6\n");
    done(folder, "convert in.csv -o out --modes 1,2 --value 3 --split none");
    assert_eq!(contents(&folder.join("out")).len(), 2);
    // Nor is a row of a further part, because it holds one of the names.
    write(folder, "first.csv", "2019,2020,rating\n1,5,3\n2,6,4\n");
    write(folder, "second.csv", "2019,7,1\n3,2020,2\n");
    done(folder, &format!("convert first.csv second.csv -o parts --split none {COLUMNS}"));
    assert_eq!(contents(&folder.join("parts")).len(), 4);
    // But its own header is.
    write(folder, "second.csv", "2020,2019,rating\n7,2019,1\n");
    done(folder, &format!("convert first.csv second.csv -o headed --split none {COLUMNS}"));
    let keys: Vec<Vec<String>> = contents(&folder.join("headed")).into_keys().collect();
    assert_eq!(keys.len(), 3);
    assert!(keys.contains(&vec!["2019".to_string(), "7".to_string()]), "{keys:?}");
    // Questions follow the same rule.
    write(
        folder,
        "data.csv",
        &(1..=40).map(|n| format!("{},{},{}\n", n % 5, n % 8, n % 4)).collect::<String>(),
    );
    done(folder, "complete data.csv -o run --modes 1,2 --value 3 --rank 1 --max-iterations 2");
    write(folder, "q.csv", "1,2\n3,4\n");
    assert_eq!(done(folder, "predict run q.csv --modes 1,2").0.lines().count(), 3);
}

#[test]
fn two_columns_of_one_name_are_refused_when_it_is_asked_for() {
    let folder = folder();
    let folder = folder.path();
    write(folder, "in.csv", "user,rating,item,rating,note,note\n1,5,7,3,a,b\n2,4,8,2,c,d\n");
    for columns in ["--modes user,item --value rating", "--modes user,rating --value 4", "--modes user,item"]
    {
        let said = refused(folder, &format!("convert in.csv -o out {columns}"));
        assert!(said.contains("in.csv: two columns have the name 'rating', 2 and 4"), "{said}");
    }
    // By its number it can be had; and a name that nobody asks for does not matter.
    done(folder, "convert in.csv -o out --modes user,item --value 4 --split none");
    let value = contents(&folder.join("out"))[&vec!["1".to_string(), "7".to_string()]].1;
    assert_eq!(f64::from_bits(value), 3.0);
    done(
        folder,
        "complete in.csv -o run --modes user,item --value 4 --rank 1 --max-iterations 1 --split none",
    );
    write(folder, "q.csv", "user,item,note,note\n1,7,a,b\n");
    assert!(done(folder, "predict run q.csv").0.starts_with("user,item,note,note,prediction"));
    write(folder, "q.csv", "user,item,user\n1,7,2\n");
    let said = refused(folder, "predict run q.csv");
    assert!(said.contains("q.csv: two columns have the name 'user', 1 and 3"), "{said}");
}
