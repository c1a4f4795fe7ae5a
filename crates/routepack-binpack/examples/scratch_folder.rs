//! x
use std::path::PathBuf;
use routepack_binpack::*;
use routepack_certificate::{Statement,TreeNode,Proof};
fn cpu()->f64{ let s=std::fs::read_to_string("/proc/thread-self/schedstat").unwrap(); s.split(' ').next().unwrap().parse::<f64>().unwrap()/1e9 }
fn main(){
    let mut args=std::env::args().skip(1); let limit:f64=args.next().unwrap().parse().unwrap();
    let (mut proved,mut sum,mut worst,mut count)=(0,0.0,0.0f64,0); let all=std::env::var("LOG").is_ok(); let mut name=String::new();
    for arg in args { let mut files:Vec<PathBuf>= if std::path::Path::new(&arg).is_dir() { std::fs::read_dir(&arg).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e=="txt")).collect() } else { vec![arg.clone().into()] }; files.sort(); name=arg.clone();
      for path in files { count+=1;
        let v:Vec<u64>=std::fs::read_to_string(&path).unwrap().split_whitespace().map(|x|x.parse().unwrap()).collect();
        let (n,c)=(v[0] as usize,v[1]); let w=if v.len()==n+2 {v[2..].to_vec()} else { v[2..].chunks(2).flat_map(|p| std::iter::repeat_n(p[0],p[1] as usize)).collect() };
        let slots=std::env::var("SLOTS").map_or(1,|x| x.parse().unwrap());
        let mut o=PackOptions::default(); if let Ok(x)=std::env::var("OPT") { o=serde_json::from_str(&x).unwrap(); }
        let st=Statement{slots,..Statement::bins(w,c)}; let t0=cpu(); let mut log=vec![];
        let r=pack(&st,&o,1,&|| cpu()-t0>limit,&mut |p| log.push(format!("{}:{}/{}@{:.3}",p.method,p.cells_bound,p.cells,cpu()-t0)));
        let t=cpu()-t0;
        match r { Err(e)=>println!("{} ERROR {e}",path.display()), Ok(r)=>{ let ok=r.rows==r.rows_bound; if ok {proved+=1; sum+=t; worst=worst.max(t);} let leaves=if let Some(Proof::Tree(t))=&r.certificate.proof {t.iter().filter(|x| matches!(x,TreeNode::Leaf(_))).count()} else {0}; if !ok || all {println!("{} n {} {}/{} {} {t:.3}s {} leaves {leaves} {} | {}",path.display(),st.sizes.len(),r.cells_bound,r.cells,if ok {"proved"} else {"open"},r.proved_by,r.finished,log.last().unwrap());} } }
      } }
    println!("TOTAL {name}: proved {proved}/{count} mean {:.4} max {worst:.3}",sum/proved.max(1) as f64);
}
